"""A console with a trial under way, seen from outside: its processes, its files, its wire."""

import json
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import psutil

from tests.support.runner import ENOUGH_S, QUICK, family, start, survivors, write_preset

# Each trial trains far longer than any test takes.
COLD = {
    "single": 'launch = "single"',
    "dp": 'launch = "dp"',
    "process": 'launch = "process"',
    "process-forkserver": 'launch = "process"\nstart_method = "forkserver"',
    "launch": 'launch = "launch"',
    "spawn": 'launch = "spawn"',
    "spawn-forkserver": 'launch = "spawn"\nstart_method = "forkserver"',
    "spawn-fork": 'launch = "spawn"\nstart_method = "fork"',
}
WARM = {f"warm-{mode}": f'launch = "{mode}"' for mode in ("single", "dp", "process", "launch", "spawn")}
MODES = {mode: f'{fields}\nstart = "cold"' for mode, fields in COLD.items()} | WARM


def begin(folder: Path, mode: str) -> "subprocess.Popen[str]":
    """Start a console that runs one trial, kept in `runs` below the folder."""
    quick = QUICK.replace("steps = 8", "steps = 1000000")
    preset = write_preset(folder, f'[[trial]]\nname = "long"\n{MODES[mode]}\n{quick}')
    return start(folder / "runs", "--preset", str(preset), "--json")


class Running:
    """A console with a trial under way, and what it has heard from the ranks."""

    def __init__(self, folder: Path, mode: str) -> None:
        self.runs = folder / "runs"
        self.ranks = 1 if mode.endswith("single") else 2
        self.before = Traces.now()
        self.console = begin(folder, mode)
        self._wait_until_it_runs()
        self.pids = {message["rank"]: message["pid"] for message in self.journal() if message["type"] == "Hello"}
        self.family = family(self.console.pid)
        [first] = psutil.Process(self.console.pid).children()
        self.warm_keeper = self.warm_parent = None
        if mode in WARM:  # its keeper and itself stand between
            self.warm_keeper, [self.warm_parent] = first, first.children()
            [first] = self.warm_parent.children()
        self.keeper = first
        self.launcher = self.keeper.children()[0]
        self.ports = listening(self.family)

    def journal(self) -> list[dict[str, Any]]:
        paths = list(self.runs.glob("*/trial-long/repeat-1/messages.jsonl"))
        lines = paths[0].read_text().splitlines(keepends=True) if paths else []
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def _wait_until_it_runs(self) -> None:
        deadline = time.monotonic() + ENOUGH_S
        while len({message["rank"] for message in self.journal() if message["type"] == "Step"}) < self.ranks:
            assert self.console.poll() is None, self.console.communicate()
            assert time.monotonic() < deadline, "the trial never ran"
            time.sleep(0.1)  # the journal is a file: there is nothing to wait on

    def send(self, number: signal.Signals) -> None:
        self.console.send_signal(number)

    def end(self) -> None:
        if self.console.poll() is None:
            self.console.kill()
        self.console.communicate()
        for process in survivors(self.family, 0):
            process.kill()

    def error(self) -> tuple[str, int]:
        """What the failed trial says, and the console's exit code."""
        output, _ = self.console.communicate(timeout=30)
        [trial] = json.loads(output)["trials"]
        assert trial["status"] == "failed"
        return trial["error"], self.console.returncode


SEMAPHORE = "sem.mp-"  # of Python's multiprocessing: launches here make none, but tests beside them may


class Traces:
    """What processes may leave on a machine: shared memory, and the folders of hubs."""

    def __init__(self, shared_memory: set[str], hubs: set[str]) -> None:
        self.shared_memory = shared_memory
        self.hubs = hubs

    @staticmethod
    def now() -> "Traces":
        files = {path.name for path in Path("/dev/shm").glob("*")}
        memory = {name for name in files if not name.startswith(SEMAPHORE)}
        return Traces(memory, {str(path) for path in Path("/tmp").glob("ddptui-hub-*")})

    def left_by(self, console: int) -> list[str]:
        """What has come since, of this console; other tests may run beside."""
        now = Traces.now()
        hubs = [path for path in now.hubs - self.hubs if f"-{console}-" in path]
        return [*sorted(now.shared_memory - self.shared_memory), *hubs]


def listening(processes: list[psutil.Process]) -> list[int]:
    """The ports that these processes hold open for others."""
    ports = []
    for process in processes:
        for connection in process.net_connections("tcp"):
            if connection.status == psutil.CONN_LISTEN:
                ports.append(connection.laddr.port)
    return ports


def can_be_bound(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as TCPStore does
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
