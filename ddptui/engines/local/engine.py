"""The engine `local`: a launcher and its ranks as processes of this host, in a session of their own."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import psutil

from ddptui.config.trial import Trial
from ddptui.diagnosis.stall import WORKING
from ddptui.engines import command as launch
from ddptui.engines.hub import Hub
from ddptui.engines.local import keeper
from ddptui.host.machine import available_cores
from ddptui.store.journal import RepeatJournal
from ddptui.wire.connection import CONSOLE_PID, LOGS
from ddptui.wire.messages import Hello

LAUNCHER_LOG = "launcher.log"
ENOUGH_S = 8.0  # for the keeper to end everybody: it needs less than half of that
COMPILED = "TORCHINDUCTOR_CACHE_DIR"  # where torch.compile keeps what it has compiled; else below TMPDIR
MEETING = "INIT_METHOD"  # where the ranks meet, if that is a file: as torch has it, file:///PATH


class LocalEngine:
    """Starts launches on this host. `folder`: the run's; what is compiled lies there for all launches of the run."""

    is_local = True

    def __init__(self, folder: Path) -> None:
        self._compiled = folder / "compiled"

    def command(self, trial: Trial, repeat: RepeatJournal) -> list[str]:
        return launch.command(trial)

    def environment(self, trial: Trial) -> dict[str, str]:
        return launch.environment(trial, available_cores())

    def open_hub(self, world_size: int) -> Hub:
        return Hub(world_size)

    def start(self, trial: Trial, command: list[str], repeat: RepeatJournal, hub: Hub) -> "LocalLaunch":
        environment = (
            self.environment(trial) | surroundings(hub.rank_environment, repeat.folder, hub.folder) | self._cache(trial)
        )
        return LocalLaunch(command, environment, repeat.folder, hub.folder)

    def close(self) -> None:
        """Each launch has ended by itself."""
        shutil.rmtree(self._compiled, ignore_errors=True)

    def _cache(self, trial: Trial) -> dict[str, str]:
        """TMPDIR is new in each launch, so each would compile everything anew. torch hands the compiler paths as they
        are: one with a space in it means two files there, and is better left alone."""
        folder = str(self._compiled.resolve())
        usable = trial.compile and COMPILED not in os.environ and shlex.quote(folder) == folder
        return {COMPILED: folder} if usable else {}


def _without_a_place(environment: Mapping[str, str]) -> dict[str, str]:
    """What somebody's shell says of nodes is not meant for the ranks of a console."""
    return {name: value for name, value in environment.items() if name not in ("NNODES", "NODE_RANK")}


def surroundings(way: Mapping[str, str], logs: Path, own_folder: Path) -> dict[str, str]:
    """What ranks of this host need in their environment besides, to be heard, and not to be left behind. `own_folder`:
    goes when the launch is over; launchers leave things behind."""
    return {
        **way,
        LOGS: str(logs),
        "TMPDIR": str(own_folder),
        MEETING: f"file://{own_folder}/meeting",
        CONSOLE_PID: str(os.getpid()),
    }


class LocalLaunch:
    """A started command, kept by keeper.py: when this process closes its end of a pipe, or is gone, all whom the
    command has started are ended. Ctrl-C in the terminal does not reach them: the console ends them, in order.

    `own_folder`: the launch's own, which goes with it if the console cannot take it away itself.
    """

    def __init__(self, command: list[str], environment: Mapping[str, str], folder: Path, own_folder: Path) -> None:
        with (folder / LAUNCHER_LOG).open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-P", keeper.__file__, str(own_folder), *command],
                cwd=folder,  # holds no module that could stand in the way of torch's
                env={**_without_a_place(os.environ), **environment},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._family: dict[int, psutil.Process] = {}

    is_waiting = False

    @property
    def exit_code(self) -> int | None:
        """None while the launcher runs; negative: the signal that killed it."""
        return self._process.poll()

    def take_notices(self) -> list[str]:
        return []

    def end_reason(self) -> str | None:
        return None

    def add_rank(self, hello: Hello) -> None:
        """Count a rank in, and whoever has been started by now. psutil keeps each one's start time, so that a number
        used again is no danger."""
        with suppress(psutil.NoSuchProcess):
            for process in psutil.Process(self._process.pid).children(recursive=True):
                self._family.setdefault(process.pid, process)
            self._family.setdefault(hello.pid, psutil.Process(hello.pid))

    def processes(self) -> list[psutil.Process]:
        """The ranks, and whoever else was there when one of them was met."""
        return list(self._family.values())

    def stopped_processes(self) -> list[int]:
        """The numbers of the launch's processes that are stopped, ranks that were not met yet among them."""
        with suppress(psutil.NoSuchProcess):
            everybody = psutil.Process(self._process.pid).children(recursive=True)
            return [process.pid for process in everybody if process.status() == psutil.STATUS_STOPPED]
        return []

    def process_status(self, hello: Hello) -> str | None:
        """What a rank's process does, as psutil says it: running, sleeping, stopped, …; None if it is gone."""
        process = self._family.get(hello.pid)
        return None if process is None else self._does(process)

    def helpers_work(self, hello: Hello) -> bool:
        """torch.compile has compilers and workers below the rank, a loader has workers: while they work, it sleeps."""
        with suppress(psutil.NoSuchProcess, KeyError):
            below = self._family[hello.pid].children(recursive=True)
            return any(self._does(process) in WORKING for process in below)
        return False

    @staticmethod
    def _does(process: psutil.Process) -> str | None:
        try:
            status = process.status() if process.is_running() else None
        except psutil.NoSuchProcess:
            return None
        return None if status == psutil.STATUS_ZOMBIE else status

    def stop(self) -> None:
        """End the launcher, its ranks and their helpers; return when none is left."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(ENOUGH_S)
        except subprocess.TimeoutExpired:  # somebody has stopped it: without it the launcher dies, and all that it knew
            self._process.kill()
            self._process.wait()
        left = [process for process in self._family.values() if self._does(process) is not None]
        for process in left:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(left, timeout=ENOUGH_S)
