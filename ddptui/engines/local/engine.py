"""The engine `local`: a launcher and its ranks as processes of this host, in a session of their own."""

import os
import shlex
import shutil
import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
import psutil

from ddptui.config.fields import FIELDS
from ddptui.config.launch_modes import COMMAND, LAUNCH_MODES
from ddptui.config.preset import start_of
from ddptui.config.trial import StartKind, Trial
from ddptui.diagnosis.stall import WORKING
from ddptui.engines import command as launch
from ddptui.engines.base import LAUNCHER_LOG, Engine, Launch
from ddptui.engines.hub import Hub
from ddptui.engines.local.foreign import Terms, own_variables
from ddptui.engines.local.warm import (
    STOP_WITHIN_S,
    CannotFork,
    ForkedLaunch,
    StartedKeeper,
    WarmParent,
    end_with_keeper,
    kill_started_in,
    start_keeper,
)
from ddptui.host.machine import available_cores
from ddptui.store.journal import RepeatJournal
from ddptui.wire.connection import CONSOLE_PID, LOGS
from ddptui.wire.messages import Hello

COMPILED = "TORCHINDUCTOR_CACHE_DIR"  # the cache of torch.compile, by default below TMPDIR
MEETING = "INIT_METHOD"  # the file where the ranks meet, if they do so in a file: file:///PATH


class LocalEngine(Engine):
    """Starts launches on this host. The run's folder holds torch.compile's cache for all launches of the run."""

    is_local = True

    def __init__(self, folder: Path, warm: WarmParent, terms: Terms | None = None) -> None:
        """warm: the caller's, who closes it. terms: on which commands are watched."""
        self._compiled = folder / "compiled"
        self._warm = warm
        self._terms = terms or Terms()

    def is_ready(self, trial: Trial, timeout_s: float) -> bool:
        if trial.launch == COMMAND:
            return True
        if start_of(trial)[0] == "warm":
            return self._warm.is_ready(timeout_s)
        return not self._warm.is_importing(timeout_s)  # an import beside it would disturb its figures

    def command(self, trial: Trial, repeat: RepeatJournal) -> list[str]:
        return [*trial.command] if trial.launch == COMMAND else launch.command(trial)

    def environment(self, trial: Trial) -> dict[str, str]:
        if trial.launch == COMMAND:
            return own_variables(trial)
        return launch.environment(trial, available_cores())

    def open_hub(self, world_size: int) -> Hub:
        return Hub(world_size)

    def start(self, trial: Trial, command: list[str], repeat: RepeatJournal, hub: Hub) -> Launch:
        if trial.launch == COMMAND:
            return self._terms.start(trial, hub, repeat.folder)
        environment = self.environment(trial) | rank_variables(hub.rank_environment, repeat.folder, hub.folder)
        compiled = str(self._compiled.resolve())
        # torch does not quote paths for the compiler: a path with a space in it cannot be used
        if trial.compile and COMPILED not in os.environ and shlex.quote(compiled) == compiled:
            environment[COMPILED] = compiled  # else each launch would compile again, because its TMPDIR is new
        return start_local(trial, command, environment, repeat.folder, hub.folder, self._warm)

    def close(self) -> None:
        shutil.rmtree(self._compiled, ignore_errors=True)


def rank_variables(hub_variables: Mapping[str, str], logs: Path, launch_folder: Path) -> dict[str, str]:
    """The variables with which ranks of this host reach the console, write logs, and end with this process."""
    return {
        **hub_variables,
        LOGS: str(logs),
        "TMPDIR": str(launch_folder),  # launchers leave temporary files behind: the folder is deleted after the launch
        MEETING: f"file://{launch_folder}/meeting",
        CONSOLE_PID: str(os.getpid()),
    }


def start_local(
    trial: Trial,
    command: list[str],  # for a cold start
    environment: Mapping[str, str],
    folder: Path,  # of the logs
    launch_folder: Path,  # deleted with the launch, by the keeper if the console cannot do so itself
    warm: WarmParent,  # ready
    nodes: int = 1,
) -> "LocalLaunch":
    """Start the ranks of this host: forked from the warm parent if that can be, else anew. Raises OSError."""
    kind, why = start_of(trial, nodes)
    with (folder / LAUNCHER_LOG).open("wb") as log:
        if kind == "warm":
            try:
                process = warm.fork(*_forked(trial), environment, folder, launch_folder, log)
                return LocalLaunch(process, launch_folder, "warm", warm=warm)
            except CannotFork as error:
                why = str(error)
        cold = start_keeper(command, environment, folder, launch_folder, log)
        return LocalLaunch(cold, launch_folder, "cold", why)


def _forked(trial: Trial) -> tuple[str, str, list[str]]:
    """What a forked launcher runs: the module, its function, and the arguments."""
    if LAUNCH_MODES[trial.launch].by_torch:
        return "workers.launch", "launch_ranks", [str(trial.world_size), *launch.arguments(trial)]
    if trial.launch not in FIELDS["start_method"].modes:
        trial = msgspec.structs.replace(trial, start_method="fork")
    return f"workers.{trial.launch}", "main", launch.arguments(trial)


class LocalLaunch(Launch):
    """A launcher below a keeper, which ends all its processes when this process wants it, or dies."""

    def __init__(
        self,
        process: StartedKeeper | ForkedLaunch,
        folder: Path,
        start: StartKind,
        start_why: str = "",
        *,
        warm: WarmParent | None = None,
    ) -> None:
        """folder: the launch's. start, start_why: as engines.base.Launch has them. warm: has forked its ranks."""
        self._folder = folder
        self._warm = warm
        self.start, self.start_why = start, start_why
        self._process = process
        # psutil keeps start times, so that a process id that is used again is not mistaken for one of these
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
        """Remembers the rank's process, and all others below the launcher."""
        with suppress(psutil.NoSuchProcess):
            for process in psutil.Process(self._process.pid).children(recursive=True):
                self._processes.setdefault(process.pid, process)
            # itself as well, in case it is no longer below the launcher
            self._processes.setdefault(hello.pid, psutil.Process(hello.pid))

    def processes(self) -> list[psutil.Process]:
        """The ranks, and the other processes below the launcher when a rank connected."""
        return list(self._processes.values())

    def stopped_processes(self) -> list[int]:
        with suppress(psutil.NoSuchProcess):
            # asks the kernel anew, because ranks that have not connected yet may be stopped, too
            processes = psutil.Process(self._process.pid).children(recursive=True)
            return [process.pid for process in processes if process.status() == psutil.STATUS_STOPPED]
        return []

    def process_status(self, hello: Hello) -> str | None:
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
        return None if status == psutil.STATUS_ZOMBIE else status  # a zombie has ended; its parent has yet to ask how

    def stop(self) -> None:
        end_with_keeper(self._process)
        # none is left, unless the keeper was stopped or killed before it had ended them
        left = [process for process in self._processes.values() if self._status(process) is not None]
        for process in left:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(left, timeout=STOP_WITHIN_S)
        if self._process.poll() == -signal.SIGKILL:  # the keeper's end, if not the launcher's: it has left daemons
            kill_started_in(self._folder)
