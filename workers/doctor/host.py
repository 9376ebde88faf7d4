"""Does what a rank asks of its host, without torch, for `ddptui doctor`. By hand:

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
from workers.doctor.answers import answer
from workers.rank import guard

LAST_WORDS_MS = 2_000
A_MINUTE_S = 60


def clock() -> dict[str, Any]:
    return {"ns": time.monotonic_ns()}


def scheduler() -> dict[str, Any]:
    """Take the policy that `sched_batch` asks for."""
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    return {"taken": os.sched_getscheduler(0) == os.SCHED_BATCH}


def hello() -> dict[str, Any]:
    """Say over the wire what a rank says first."""
    words = Hello(
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
        peer.setsockopt(zmq.LINGER, LAST_WORDS_MS)
        peer.connect(os.environ[HUB])
        peer.send(msgspec.msgpack.encode([words]))
    return {}


def dependants() -> dict[str, Any]:
    """Start two processes that are to die when this one does: one that the kernel kills with its parent, and one for
    which this process is the console that it watches, as all of workers/ does."""
    return {"parent": _dependant("parent", {}), "console": _dependant("console", {CONSOLE_PID: str(os.getpid())})}


def _dependant(on: str, variables: dict[str, str]) -> int:
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "workers.doctor.host", on],
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )
    if process.stdout is None or process.stdout.read(1) != b"!":
        raise RuntimeError(f"a process to die with its {on} ended too early")
    return process.pid


def depend(on: str) -> None:
    """Be guarded one way only, say so, and wait to be killed."""
    if on == "parent":
        guard.die_with_parent()
    os.write(sys.stdout.fileno(), b"!")
    time.sleep(A_MINUTE_S)


if __name__ == "__main__":
    if sys.argv[1:]:
        depend(sys.argv[1])
    else:
        answer({question.__name__: question for question in (clock, scheduler, hello, dependants)})
