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
STOP_WITHIN_S = 8.0  # for the keeper to end all processes: it needs less than half of that
COMPILED = "TORCHINDUCTOR_CACHE_DIR"  # the cache of torch.compile, by default below TMPDIR
MEETING = "INIT_METHOD"  # the file where the ranks meet, if they do so in a file: file:///PATH


class LocalEngine:
    """Starts launches on this host. The run's folder holds torch.compile's cache for all launches of the run."""

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
        variables = rank_variables(hub.rank_environment, repeat.folder, hub.folder)
        environment = self.environment(trial) | variables | self._cache(trial)
        return LocalLaunch(command, environment, repeat.folder, hub.folder)

    def close(self) -> None:
        """Deletes torch.compile's cache."""
        shutil.rmtree(self._compiled, ignore_errors=True)

    def _cache(self, trial: Trial) -> dict[str, str]:
        """Without a cache of the run, each launch would compile again, because its TMPDIR is new.

        torch does not quote paths for the compiler: a path with a space in it cannot be used.
        """
        folder = str(self._compiled.resolve())
        usable = trial.compile and COMPILED not in os.environ and shlex.quote(folder) == folder
        return {COMPILED: folder} if usable else {}


def _without_nodes(environment: Mapping[str, str]) -> dict[str, str]:
    """Variables about nodes in the user's shell do not apply to ranks that a console starts."""
    return {name: value for name, value in environment.items() if name not in ("NNODES", "NODE_RANK")}


def rank_variables(hub_variables: Mapping[str, str], logs: Path, launch_folder: Path) -> dict[str, str]:
    """The variables with which ranks of this host reach the console, write logs, and end with this process.

    `launch_folder` is deleted after the launch, with the temporary files that launchers leave behind.
    """
    return {
        **hub_variables,
        LOGS: str(logs),
        "TMPDIR": str(launch_folder),
        MEETING: f"file://{launch_folder}/meeting",
        CONSOLE_PID: str(os.getpid()),
    }


class LocalLaunch:
    """A started command below keeper.py, which ends all its processes when this process closes a pipe, or dies.

    Ctrl-C in the terminal does not reach them: the console ends them, in order. `launch_folder` is deleted with the
    launch if the console cannot do so itself.
    """

    def __init__(self, command: list[str], environment: Mapping[str, str], folder: Path, launch_folder: Path) -> None:
        with (folder / LAUNCHER_LOG).open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-P", keeper.__file__, str(launch_folder), *command],
                cwd=folder,  # holds no module that could stand in the way of torch's
                env={**_without_nodes(os.environ), **environment},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._processes: dict[int, psutil.Process] = {}

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
        """Remembers the rank's process, and all others below the launcher. psutil keeps their start times, so that
        a process id that is used again is not mistaken for them."""
        with suppress(psutil.NoSuchProcess):
            for process in psutil.Process(self._process.pid).children(recursive=True):
                self._processes.setdefault(process.pid, process)
            self._processes.setdefault(hello.pid, psutil.Process(hello.pid))

    def processes(self) -> list[psutil.Process]:
        """The ranks, and the other processes below the launcher when a rank connected."""
        return list(self._processes.values())

    def stopped_processes(self) -> list[int]:
        """The ids of stopped processes; ranks that have not connected yet are among them."""
        with suppress(psutil.NoSuchProcess):
            processes = psutil.Process(self._process.pid).children(recursive=True)
            return [process.pid for process in processes if process.status() == psutil.STATUS_STOPPED]
        return []

    def process_status(self, hello: Hello) -> str | None:
        """As psutil names it: running, sleeping, stopped, …; None: the process is gone."""
        process = self._processes.get(hello.pid)
        return None if process is None else self._status(process)

    def helpers_work(self, hello: Hello) -> bool:
        """torch.compile starts compilers below the rank, a data loader workers: the rank sleeps while they work."""
        with suppress(psutil.NoSuchProcess, KeyError):
            helpers = self._processes[hello.pid].children(recursive=True)
            return any(self._status(process) in WORKING for process in helpers)
        return False

    @staticmethod
    def _status(process: psutil.Process) -> str | None:
        try:
            status = process.status() if process.is_running() else None
        except psutil.NoSuchProcess:
            return None
        return None if status == psutil.STATUS_ZOMBIE else status

    def stop(self) -> None:
        """Ends the launcher, its ranks and their helpers; returns when none is left."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:  # the keeper was stopped: the kernel ends the launcher with it
            self._process.kill()
            self._process.wait()
        left = [process for process in self._processes.values() if self._status(process) is not None]
        for process in left:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(left, timeout=STOP_WITHIN_S)
