"""Starts or attaches to the user's own command in order to watch it, here or with ranks on other hosts
(`--listen`).

`WatchMode` says whether the command outlives the console.

In a terminal the command behaves as if there were no console: it uses the terminal for input and output, receives the
signals that are sent to the console, and continues if the console ends.

With `--listen`, the console starts and ends no process.
"""

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import psutil

from ddptui.config.preset import EngineOptions
from ddptui.config.trial import Trial
from ddptui.engines.base import LAUNCHER_LOG, Engine, Launch, LaunchRefused
from ddptui.engines.join.engine import TICKET, short
from ddptui.engines.join.ticket import ticket_for
from ddptui.engines.local.hidden import HiddenRanks, injected_folder
from ddptui.engines.local.training import CONSOLE_FILE, HeldTraining, Relay, Tail, TrainingLaunch, remember, training_at
from ddptui.engines.rank_server import RankServer
from ddptui.host.folders import write_private
from ddptui.host.keeper import end_watched
from ddptui.host.network import choose_interface, port_of
from ddptui.store.journal import RepeatJournal
from ddptui.store.runs import Run
from ddptui.text.sanitize import as_argument
from ddptui.wire.connection import NOTES, WATCHED
from ddptui.wire.relay_file import Watching

PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
NOT_FOUND = "no such program: is it installed, and on PATH?"
LOOK_EVERY_S = 0.05  # interval of checks in `wait`


@dataclass(kw_only=True)
class WatchMode:
    """How commands are watched: whether a command shares the terminal, and whether it outlives the console. The
    defaults are for a preset's commands, which belong to the console."""

    in_terminal: bool = False  # the command uses the console's input and output, and receives its signals
    outlives: bool = False  # the command continues when the console releases it or ends
    elsewhere: bool = False  # the command is started on other hosts, not by the console
    running: HeldTraining | None = None  # a command that another console has started before
    # what ranks report; each trial says which steps, and which delays are injected
    options: Watching = field(default_factory=Watching)
    launch: "CommandLaunch | None" = field(default=None, init=False)  # the last launch

    @property
    def saw_nothing(self) -> bool:
        """Whether a command was started and ended well, but none of its ranks connected."""
        return self.launch is not None and not self.launch.has_ranks and self.launch.exit_code == 0

    def watching(self, trial: Trial) -> Watching:
        """What ranks of a trial's command report."""
        skip, steps, bottleneck = trial.warmup_steps, trial.steps, trial.bottleneck
        return msgspec.structs.replace(self.options, skip=skip, steps=steps, bottleneck=bottleneck)

    def start(self, trial: Trial, hub: RankServer, folder: Path) -> Launch:
        """Start a trial's command in the current folder, or attach to the running one. folder: the folder of the
        repeat. Raises LaunchRefused, OSError."""
        watching = self.watching(trial)
        if self.running is not None:
            remember(self.running.training, folder)
            console = Path(self.running.training.console)
            relay = Relay(console, hub.folder, hub.rank_environment, watching, ends_training=False)
            return AttachedLaunch(self.running, folder, relay, self)
        console = folder / CONSOLE_FILE
        relay = Relay(console, hub.folder, hub.rank_environment, watching, ends_training=not self.outlives)
        command, environment = [*map(as_argument, trial.command)], {**os.environ, **own_variables(trial)}
        launch = self.start_command(command, environment, folder, relay)
        if self.outlives and (training := training_at(launch.pid, console)):
            remember(training, folder)
        return launch

    def start_command(
        self, command: Sequence[str], environment: Mapping[str, str], folder: Path, relay: Relay
    ) -> "CommandLaunch":
        """Start a command whose ranks report to a relay. If that fails, the relay is ended. folder: for the files that
        describe the command. Raises LaunchRefused, OSError."""
        console = (folder / CONSOLE_FILE).absolute()
        before = environment.get("PYTHONPATH")
        path = [injected_folder(), *([before] if before is not None else [])]
        own = {**environment, "PYTHONPATH": os.pathsep.join(path), WATCHED: str(console)}
        streams: dict[str, Any] = {}
        try:
            with ExitStack() as files:
                if not self.in_terminal:  # independent of the console's terminal, which may be closed
                    log = files.enter_context((folder / LAUNCHER_LOG).open("wb"))
                    streams = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log, "start_new_session": True}
                process = subprocess.Popen(command, env=own, **streams)
        except OSError as error:
            relay.close()
            why = NOT_FOUND if isinstance(error, FileNotFoundError) else f"{error.strerror}: nothing was started"
            raise LaunchRefused(f"{command[0]}: {why}") from None
        self.launch = CommandLaunch(process, folder, relay, self)
        return self.launch


def start_for_console_elsewhere(
    command: Sequence[str], watching: Watching, hub_environment: Mapping[str, str], folder: Path
) -> "CommandLaunch":
    """Start a command on this host whose ranks a console on another host watches. hub_environment: the environment
    variables by which they reach that console. folder: an empty folder. Raises LaunchRefused, OSError."""
    relay = Relay(folder / CONSOLE_FILE, folder, hub_environment, watching, ends_training=False)
    return WatchMode(in_terminal=True, outlives=True).start_command(command, os.environ, folder, relay)


def own_variables(trial: Trial) -> dict[str, str]:
    """The environment variables that a trial sets for its command."""
    return dict(variable.split("=", 1) for variable in trial.env)


class CommandLaunch(TrainingLaunch):
    """A command that this process has started."""

    def __init__(self, process: "subprocess.Popen[bytes]", folder: Path, relay: Relay, mode: WatchMode) -> None:
        """folder: for the files that describe the command. mode: may change while the command runs."""
        super().__init__(folder, relay)
        self.pid = process.pid
        self._process = process
        self._notes = Tail(folder / NOTES)
        self._said: list[str] = []  # notices returned so far
        self._mode = mode
        self._hidden = HiddenRanks(process.pid)
        self._passes_signals = mode.in_terminal
        if self._passes_signals:  # after the start, or the command would inherit the blocked signals
            signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)

    @property
    def exit_code(self) -> int | None:
        if self._passes_signals:
            self._pass_signals()
        return self._process.poll()

    def _pass_signals(self) -> None:
        """Pass signals on to the command, except those from the terminal, which the command receives itself."""
        while (come := signal.sigtimedwait(PASSED_ON, 0)) is not None:
            if come.si_code <= 0:  # sent by kill(2); otherwise the kernel sent it to all processes of the terminal
                with suppress(ProcessLookupError):
                    self._process.send_signal(come.si_signo)

    def take_notices(self) -> list[str]:
        """New reasons why processes are not watched: those that processes report, and, at the end, those that were
        observed. Each reason is returned once."""
        lines = [f"not watched: {reason.decode('utf-8', 'replace')}" for reason in self._notes.take()]
        if not self.has_ranks:
            self._hidden.look()
            lines += filter(None, [self._hidden.reason() if self._process.returncode is not None else ""])
        new = [line for line in dict.fromkeys(lines) if line not in self._said]
        self._said += new
        return new

    def end_reason(self) -> str | None:
        """Why no rank was seen, if that is known."""
        return next(iter(self._said), None) or self._hidden.reason() or None

    def stop(self) -> None:
        """End the command, unless it may outlive the console."""
        if not self._mode.outlives:
            command = psutil.Process(self._process.pid) if self._process.poll() is None else None
            end_watched(str((self.folder / CONSOLE_FILE).absolute()), command)
            self._process.poll()
        self.forget_if_over()

    def wait(self, tell: Callable[[str], None]) -> int:
        """Wait for the command's end. Until then, pass on signals, and call `tell` with notices; afterwards this
        process receives signals itself again. Returns the command's exit code."""
        while (code := self.exit_code) is None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(LOOK_EVERY_S)
            for notice in self.take_notices():
                tell(notice)
        if self._passes_signals:
            self._passes_signals = False
            while signal.sigtimedwait(PASSED_ON, 0) is not None:  # drop signals meant for the command
                pass
            signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
        self.forget_if_over()
        return code


class AttachedLaunch(TrainingLaunch):
    """A command that another console has started, and that this one now watches."""

    def __init__(self, held: HeldTraining, folder: Path, relay: Relay, mode: WatchMode) -> None:
        super().__init__(folder, relay)
        self._training, self._lock, self._mode = held.training, held.lock, mode

    @property
    def exit_code(self) -> int | None:
        """None while the command runs, then 0: only its parent can know the true exit code."""
        return None if self._training.runs() else 0

    def stop(self) -> None:
        if not self._mode.outlives:
            end_watched(self._training.console)
        self.forget_if_over()
        self._lock.close()


class ListeningEngine(Engine):
    """Lets the ranks of a training on other hosts connect."""

    def __init__(self, options: EngineOptions, run: Run, mode: WatchMode) -> None:
        """Raises NetworkError."""
        self._run, self._mode = run, mode
        self._at = choose_interface(options.interface).address, options.port or port_of(run.name)
        self._ticket = run.folder / TICKET

    def command(self, trial: Trial, repeat: RepeatJournal) -> list[str]:
        return [*trial.command]

    def environment(self, trial: Trial) -> dict[str, str]:
        return {}

    def open_hub(self, world_size: int) -> RankServer:
        return RankServer(world_size, at=self._at)

    def start(self, trial: Trial, command: list[str], repeat: RepeatJournal, hub: RankServer) -> "ListeningLaunch":
        ticket = ticket_for(self._run.name, hub.socket, self._mode.watching(trial))
        write_private(self._ticket, ticket.spell() + "\n")
        return ListeningLaunch(self._ticket)

    def close(self) -> None:
        """Delete the ticket."""
        with suppress(OSError):
            self._ticket.unlink()


class ListeningLaunch(Launch):
    """A training on other hosts. It is over when its ranks are done."""

    ends_with_ranks = True
    exit_code = None

    def __init__(self, ticket: Path) -> None:
        self._notices = [f"waiting: on each host of the training, run `ddptui watch --join {short(ticket)} -- COMMAND`"]

    def take_notices(self) -> list[str]:
        notices, self._notices = self._notices, []
        return notices

    def stop(self) -> None:
        """Does nothing: the console does not end a training on other hosts."""
