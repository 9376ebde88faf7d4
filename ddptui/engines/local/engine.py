"""The engine `local`: a launcher and its ranks run as processes of this host, in a session of their own."""

import os
import shlex
import shutil
import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
import psutil

from ddptui.config.catalog import COMMAND, LAUNCH_MODES
from ddptui.config.fields import FIELDS
from ddptui.config.preset import start_of
from ddptui.config.trial import Trial
from ddptui.diagnosis.stall import WORKING
from ddptui.engines import base as launch
from ddptui.engines.base import LAUNCHER_LOG, Engine, Launch
from ddptui.engines.local.command import WatchMode, own_variables
from ddptui.engines.local.warm import (
    CannotFork,
    ForkedLaunch,
    StartedKeeper,
    WarmParent,
    end_with_keeper,
    kill_started_in,
    start_keeper,
)
from ddptui.engines.rank_server import RankServer
from ddptui.host.machine import available_cores
from ddptui.store.journal import RepeatJournal
from ddptui.wire.connection import CONSOLE_PID, LOGS
from ddptui.wire.messages import Hello

COMPILED = "TORCHINDUCTOR_CACHE_DIR"  # the cache of torch.compile, by default below TMPDIR
MEETING = "INIT_METHOD"  # the URL of the file at which ranks meet, if the trial uses one: file:///PATH


class LocalEngine(Engine):
    """Starts launches on this host. The run's folder holds torch.compile's cache for all launches of the run."""

    is_local = True

    def __init__(self, folder: Path, warm: WarmParent, mode: WatchMode | None = None) -> None:
        """warm: the warm parent, which the caller closes. mode: how commands are watched."""
        self._compiled = folder / "compiled"
        self._warm = warm
        self._mode = mode or WatchMode()

    def is_ready(self, trial: Trial, timeout_s: float) -> bool:
        if trial.launch == COMMAND:
            return True
        if start_of(trial)[0] == "warm":
            return self._warm.is_ready(timeout_s)
        return not self._warm.is_importing(timeout_s)  # imports of the warm parent would disturb the measurements

    def command(self, trial: Trial, repeat: RepeatJournal) -> list[str]:
        return [*trial.command] if trial.launch == COMMAND else launch.rank_command(trial)

    def environment(self, trial: Trial) -> dict[str, str]:
        if trial.launch == COMMAND:
            return own_variables(trial)
        return launch.rank_environment(trial, available_cores())

    def open_hub(self, world_size: int) -> RankServer:
        return RankServer(world_size)

    def start(self, trial: Trial, command: list[str], repeat: RepeatJournal, hub: RankServer) -> Launch:
        if trial.launch == COMMAND:
            return self._mode.start(trial, hub, repeat.folder)
        environment = self.environment(trial) | rank_variables(hub.rank_environment, repeat.folder, hub.folder)
        compiled = str(self._compiled.resolve())
        # torch does not quote paths for the compiler, so a path with a space cannot be used
        if trial.compile and COMPILED not in os.environ and shlex.quote(compiled) == compiled:
            environment[COMPILED] = compiled  # otherwise each launch would compile again, because its TMPDIR is new
        return start_local(trial, command, environment, repeat.folder, hub.folder, self._warm)

    def close(self) -> None:
        shutil.rmtree(self._compiled, ignore_errors=True)


def rank_variables(hub_variables: Mapping[str, str], logs: Path, launch_folder: Path) -> dict[str, str]:
    """The environment variables by which ranks on this host reach the console, write logs, and end with this
    process."""
    return {
        **hub_variables,
        LOGS: str(logs),
        "TMPDIR": str(launch_folder),  # deleted after the launch, with the files that launchers leave behind
        MEETING: f"file://{launch_folder}/meeting",
        CONSOLE_PID: str(os.getpid()),
    }


def start_local(
    trial: Trial,
    command: list[str],  # used for a cold start
    environment: Mapping[str, str],
    folder: Path,  # for the logs
    launch_folder: Path,  # temporary folder of the launch; the keeper deletes it if the console cannot
    warm: WarmParent,  # must be ready
    nodes: int = 1,
) -> "LocalLaunch":
    """Start the ranks on this host: forked from the warm parent if possible, else cold. Raises OSError."""
    kind, why = start_of(trial, nodes)
    with (folder / LAUNCHER_LOG).open("wb") as log:
        if kind == "warm":
            try:
                process = warm.fork(*_forked(trial), environment, folder, launch_folder, log)
                return LocalLaunch(process, launch_folder, warm)
            except CannotFork as error:
                why = str(error)
        cold = start_keeper(command, environment, folder, launch_folder, log)
        return LocalLaunch(cold, launch_folder, start_why=why)


def _forked(trial: Trial) -> tuple[str, str, list[str]]:
    """What a forked launcher runs: the module, its function, and the arguments."""
    if LAUNCH_MODES[trial.launch].by_torch:
        return "workers.launch", "launch_ranks", [str(trial.world_size), *launch.rank_arguments(trial)]
    if trial.launch not in FIELDS["start_method"].modes:
        trial = msgspec.structs.replace(trial, start_method="fork")
    return f"workers.{trial.launch}", "main", launch.rank_arguments(trial)


class LocalLaunch(Launch):
    """A launcher below a keeper, which ends all processes of the launch when this process asks for it or dies."""

    def __init__(
        self, process: StartedKeeper | ForkedLaunch, folder: Path, warm: WarmParent | None = None, start_why: str = ""
    ) -> None:
        """folder: the temporary folder of the launch. warm: the warm parent that forked the ranks; None: they were
        started cold. start_why: see engines.base.Launch."""
        self._folder = folder
        self._warm = warm
        self.start, self.start_why = "warm" if warm else "cold", start_why
        self._process = process
        # psutil remembers start times, so a reused process id is not mistaken for one of these
        self._processes: dict[int, psutil.Process] = {}

    @property
    def exit_code(self) -> int | None:
        return self._process.poll()

    def end_reason(self) -> str | None:
        if self._warm is None:
            return None
        self._warm.notices_its_end()
        return self._warm.problem

    def add_rank(self, hello: Hello) -> None:
        """Remembers the process of the rank and all others below the launcher."""
        with suppress(psutil.NoSuchProcess):
            for process in psutil.Process(self._process.pid).children(recursive=True):
                self._processes.setdefault(process.pid, process)
            # the rank itself may no longer be below the launcher
            self._processes.setdefault(hello.pid, psutil.Process(hello.pid))

    def processes(self) -> list[psutil.Process]:
        """The ranks, and other processes that were below the launcher when a rank connected."""
        return list(self._processes.values())

    def process_status(self, hello: Hello) -> str | None:
        process = self._processes.get(hello.pid)
        return None if process is None else self._status(process)

    def helpers_work(self, hello: Hello) -> bool:
        """Whether a process that the rank started is busy: the rank sleeps while compilers (torch.compile) or
        DataLoader workers are busy."""
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
        return None if status == psutil.STATUS_ZOMBIE else status  # a zombie has ended, but was not reaped

    def stop(self) -> None:
        end_with_keeper(self._process)
        if self._process.poll() == -signal.SIGKILL:  # the keeper itself may have been killed: then it left processes
            kill_started_in(self._folder)
