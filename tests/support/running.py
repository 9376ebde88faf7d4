"""A console with trials under way, seen from outside: its processes, its files, its wire."""

import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from tests.support.runner import ENOUGH_S, QUICK, family, start, survivors, write_preset

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
# Each trial trains far longer than any test takes, at a walk: the others wait for rank 0 in their collectives.
LONG = QUICK.replace("steps = 8", "steps = 1000000")
WALK = '[[trial.bottleneck]]\nat = "data"\nranks = [0]\nsleep_ms = 25\n'
Messages = list[dict[str, Any]]


class Console:
    """A console that runs long trials one after another, kept in `runs` below the folder."""

    def __init__(self, folder: Path, modes: Mapping[str, str]) -> None:
        """modes: by the trial's name."""
        self.modes = modes
        self.runs = folder / "runs"
        self.before = Traces.now()
        self.family: list[psutil.Process] = []  # all that were seen below it
        self.listeners: set[str] = set()  # the TCP sockets at which these listened
        trials = [f'[[trial]]\nname = "{name}"\n{MODES[mode]}\n{LONG}{WALK}' for name, mode in modes.items()]
        self.process = start(self.runs, "--preset", str(write_preset(folder, "".join(trials))), "--json")

    def journal(self, trial: str) -> Messages:
        paths = list(self.runs.glob(f"*/trial-{trial}/repeat-1/messages.jsonl"))
        lines = paths[0].read_text().splitlines(keepends=True) if paths else []
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def await_message(self, trial: str, *, has_come: Callable[[Messages], bool]) -> Messages:
        """The trial's journal as soon as it holds what is waited for."""
        deadline = time.monotonic() + ENOUGH_S
        while True:
            is_over = self.process.poll() is not None  # before the look: its last messages count
            if has_come(told := self.journal(trial)):
                return told
            assert not is_over, self.process.communicate()
            assert time.monotonic() < deadline, told[-1:]
            time.sleep(0.1)  # the journal is a file: there is nothing to wait on

    def launch(self, trial: str) -> "UnderWay":
        """The launch of this trial, once each of its ranks has made a step."""
        mode = self.modes[trial]
        ranks = 1 if mode.endswith("single") else 2
        told = self.await_message(
            trial, has_come=lambda told: len({each["rank"] for each in told if each["type"] == "Step"}) == ranks
        )
        pids = {message["rank"]: message["pid"] for message in told if message["type"] == "Hello"}
        self.family += family(self.process.pid)
        self.listeners |= set().union(*map(open_sockets, self.family)) & listeners()
        assert self.listeners or mode.endswith(("single", "dp")), "a process group has a store, which listens"
        return UnderWay(self.process.pid, pids, is_forked=mode in WARM)

    def trials(self) -> tuple[Messages, int]:
        """What it says of its trials at its end, and its exit code."""
        output, _ = self.process.communicate(timeout=30)
        trials: Messages = json.loads(output)["trials"]
        return trials, self.process.returncode

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        for process in survivors(self.family, 0):
            process.kill()


class UnderWay:
    """The processes of a launch."""

    def __init__(self, console: int, pids: dict[int, int], *, is_forked: bool) -> None:
        """pids: of the ranks."""
        self.pids = pids
        rank = psutil.Process(pids[0])
        above = rank.parents()
        down = [*reversed(above[: above.index(psutil.Process(console))]), rank]  # from the console to the rank
        self.warm_keeper = down.pop(0) if is_forked else None
        self.keeper, self.launcher, *_ = down  # of a forked launch, the warm parent is the keeper
        self.processes = [*([] if is_forked else [self.keeper]), *family(self.keeper.pid)]


class Running(Console):
    """A console with one trial, which is under way."""

    def __init__(self, folder: Path, mode: str) -> None:
        super().__init__(folder, {"long": mode})
        self.under_way = self.launch("long")

    def error(self) -> tuple[str, int]:
        """What the failed trial says, and the console's exit code."""
        [trial], code = self.trials()
        assert trial["status"] == "failed"
        return trial["error"], code


LISTENS = "0A"  # in /proc/net/tcp
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

    def left_by(self, console: int, family: list[psutil.Process]) -> list[str]:
        """What has come since, of this console and of those below it; other tests may run beside. Torch names memory
        after the process that made it; memory with another name could be anyone's, and counts."""
        now = Traces.now()
        hubs = [path for path in now.hubs - self.hubs if f"-{console}-" in path]
        makers = {str(pid) for pid in (console, *(process.pid for process in family))}
        memory = now.shared_memory - self.shared_memory
        others = {name for name in memory if name.startswith("torch_") and name.split("_")[1] not in makers}
        return [*sorted(memory - others), *hubs]


def open_sockets(process: psutil.Process) -> set[str]:
    """The sockets that a process holds, by their inodes."""
    links = []
    with suppress(OSError):  # it ends meanwhile
        for number in Path(f"/proc/{process.pid}/fd").iterdir():
            with suppress(OSError):
                links.append(os.readlink(number))
    return {link[len("socket:[") : -1] for link in links if link.startswith("socket:[")}


def listeners() -> set[str]:
    """The TCP sockets of this machine that listen, by their inodes. A port, when its holder has ended, may be a
    stranger's a moment later; an inode is not given again."""
    lines = [line.split() for table in Path("/proc/net").glob("tcp*") for line in table.read_text().splitlines()]
    return {fields[9] for fields in lines if fields[3] == LISTENS}
