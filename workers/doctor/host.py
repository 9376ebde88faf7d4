"""Tests what a rank needs of its host, without torch, for `ddptui doctor`. By hand:

echo clock | python -m workers.doctor.host
"""

import os
import socket
import subprocess
import sys
import time
from typing import Any

import msgspec
import zmq

from ddptui.wire.connection import CONSOLE_PID, HUB, TOKEN
from ddptui.wire.messages import VERSION, Hello
from workers.doctor.answers import answer, by_name
from workers.rank import guard

LINGER_MS = 2_000
A_MINUTE_S = 60


def clock() -> dict[str, Any]:
    """This process's monotonic time in ns, which equals the console's if they share a clock."""
    return {"ns": time.monotonic_ns()}


def scheduler() -> dict[str, Any]:
    """Switch to SCHED_BATCH, as ranks do with `sched_batch`. Returns whether the kernel accepted it."""
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    return {"taken": os.sched_getscheduler(0) == os.SCHED_BATCH}


def hello() -> dict[str, Any]:
    """Send the console a rank's first message."""
    message = Hello(
        version=VERSION,
        token=os.environ[TOKEN],
        rank=0,
        world_size=1,
        at_ns=time.monotonic_ns(),
        host=socket.gethostname(),
        pid=os.getpid(),
        device="cpu",
        threads=1,
        torch="",
    )
    with zmq.Context() as context, context.socket(zmq.DEALER) as peer:
        peer.setsockopt(zmq.LINGER, LINGER_MS)
        peer.connect(os.environ[HUB])
        peer.send(msgspec.msgpack.encode([message]))
    return {}


def dependants() -> dict[str, Any]:
    """Start two processes that must die with this one, and return their pids. The kernel kills one when its parent
    dies; the other watches this process as if it were the console, as every process of workers/ does."""
    return {"parent": _dependant("parent", {}), "console": _dependant("console", {CONSOLE_PID: str(os.getpid())})}


def _dependant(on: str, variables: dict[str, str]) -> int:
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "workers.doctor.host", on],
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )
    if process.stdout is None or process.stdout.read(1) != b"!":
        raise RuntimeError(f"the test process that should die with its {on} ended too early")
    return process.pid


def depend(on: str) -> None:
    """Enable one guard only, report readiness, and wait to be killed. on: "parent" or "console"."""
    if on == "parent":
        guard.die_with_parent()
    os.write(sys.stdout.fileno(), b"!")
    time.sleep(A_MINUTE_S)


if __name__ == "__main__":
    if sys.argv[1:]:
        depend(sys.argv[1])
    else:
        answer(by_name(clock, scheduler, hello, dependants))
