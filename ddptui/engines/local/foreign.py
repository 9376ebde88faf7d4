"""A command of the user's own, which is watched. Its Terms say whether it ends with the console, or outlives it.

In a terminal it is as if the console were not there: the command has its input, output and error output, gets the
signals that are sent to the console, and goes on if the console ends.
"""

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from ddptui.config.trial import Trial
from ddptui.engines.base import LAUNCHER_LOG, Launch, LaunchRefused
from ddptui.engines.hub import Hub
from ddptui.engines.local.hidden import HiddenRanks, injected_folder
from ddptui.engines.local.relay import Relay
from ddptui.engines.local.training import CONSOLE_FILE, HeldTraining, TrainingLaunch, remember, training_at
from ddptui.host.ending import end_watched
from ddptui.text.argv import as_argument
from ddptui.wire.connection import NOTES, WATCHED
from ddptui.wire.watching import Watching

PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
NOT_FOUND = "no such program: is it installed, and on PATH?"
MOST_NOTES = 65_536  # bytes
LOOK_EVERY_S = 0.05  # while only the command's end is waited for


@dataclass(kw_only=True)
class Terms:
    """On which terms commands are watched. The defaults are those of a preset, whose commands belong to the console."""

    in_terminal: bool = False  # the command has the console's input and output, and gets its signals
    outlives: bool = False  # it goes on when the console lets go of it, or ends
    elsewhere: bool = False  # it is started on other hosts, not by the console
    running: HeldTraining | None = None  # it was started before, by another console
    every: int = 1  # so many steps one is reported
    launch: "ForeignLaunch | None" = field(default=None, init=False)  # the last one that was started

    @property
    def saw_nothing(self) -> bool:
        """Whether a command was started that ended well, and no rank of it connected."""
        return self.launch is not None and not self.launch.has_ranks and self.launch.exit_code == 0

    def start(self, trial: Trial, hub: Hub, folder: Path) -> Launch:
        """Start a trial's command in the current folder, or watch the one that runs. folder: the repeat's. Raises
        LaunchRefused, OSError."""
        way, watching = hub.rank_environment, watching_of(trial, self.every)
        if self.running is not None:
            remember(self.running.training, folder)
            relay = Relay(Path(self.running.training.console), hub.folder, way, watching, ends_training=False)
            return AttachedLaunch(self.running, folder, relay, self)
        console = folder / CONSOLE_FILE
        relay = Relay(console, hub.folder, way, watching, ends_training=not self.outlives)
        command, environment = [*map(as_argument, trial.command)], {**os.environ, **own_variables(trial)}
        launch = self.start_command(command, environment, folder, relay)
        if self.outlives and (training := training_at(launch.pid, console)):
            remember(training, folder)
        return launch

    def start_command(
        self, command: Sequence[str], environment: Mapping[str, str], folder: Path, relay: Relay
    ) -> "ForeignLaunch":
        """Start a command whose ranks report to a relay, which is ended if that fails. folder: for what is written down
        of it. Raises LaunchRefused, OSError."""
        console = (folder / CONSOLE_FILE).absolute()
        before = environment.get("PYTHONPATH")
        path = [injected_folder(), *([before] if before is not None else [])]
        own = {**environment, "PYTHONPATH": os.pathsep.join(path), WATCHED: str(console)}
        streams: dict[str, Any] = {}
        try:
            with ExitStack() as files:
                if not self.in_terminal:  # apart from the console's terminal, which may be closed
                    log = files.enter_context((folder / LAUNCHER_LOG).open("wb"))
                    streams = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log, "start_new_session": True}
                process = subprocess.Popen(command, env=own, **streams)
        except OSError as error:
            relay.close()
            why = NOT_FOUND if isinstance(error, FileNotFoundError) else f"{error.strerror}: nothing was started"
            raise LaunchRefused(f"{command[0]}: {why}") from None
        self.launch = ForeignLaunch(process, folder, relay, self)
        return self.launch


def watching_of(trial: Trial, every: int) -> Watching:
    """What of a trial's command is reported. every: so many steps one is."""
    return Watching(skip=trial.warmup_steps, steps=trial.steps, every=every, bottleneck=trial.bottleneck)


def start_for_console_elsewhere(
    command: Sequence[str], watching: Watching, way: Mapping[str, str], folder: Path
) -> "ForeignLaunch":
    """Start a command here whose ranks a console on another host watches. way: the variables by which they reach it.
    folder: an empty one. Raises LaunchRefused, OSError."""
    relay = Relay(folder / CONSOLE_FILE, folder, way, watching, ends_training=False)
    return Terms(in_terminal=True, outlives=True).start_command(command, os.environ, folder, relay)


def own_variables(trial: Trial) -> dict[str, str]:
    """The variables that a trial gives its command."""
    return dict(variable.split("=", 1) for variable in trial.env)


class ForeignLaunch(TrainingLaunch):
    """A command that was started here."""

    def __init__(self, process: "subprocess.Popen[bytes]", folder: Path, relay: Relay, terms: Terms) -> None:
        """folder: for what is written down of it. terms: may change while it runs."""
        super().__init__(folder, relay)
        self.pid = process.pid
        self._process = process
        self._read = 0  # bytes of the notes
        self._said: list[str] = []  # the lines about them
        self._terms = terms
        self._hidden = HiddenRanks(process.pid)
        self._passes_signals = terms.in_terminal
        if self._passes_signals:  # now, not before: the command would inherit that they are blocked
            signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)

    @property
    def exit_code(self) -> int | None:
        if self._passes_signals:
            self._pass_signals()
        return self._process.poll()

    def _pass_signals(self) -> None:
        """Send the command what was sent to this process. What the terminal sends, the command has got itself."""
        while (come := signal.sigtimedwait(PASSED_ON, 0)) is not None:
            if come.si_code <= 0:  # by kill(2): above, the kernel has sent it, to all processes of the terminal
                with suppress(ProcessLookupError):
                    self._process.send_signal(come.si_signo)

    def take_notices(self) -> list[str]:
        """Why processes are not watched, as they say themselves, or, at the end, as was seen; each reason once."""
        lines = [f"not watched: {reason}" for reason in self._notes()]
        if not self.has_ranks:
            self._hidden.look()
            lines += filter(None, [self._hidden.reason() if self._process.returncode is not None else ""])
        new = [line for line in dict.fromkeys(lines) if line not in self._said]
        self._said += new
        return new

    def _notes(self) -> list[str]:
        """The new lines of the file of notes."""
        with suppress(OSError), (self.folder / NOTES).open("rb") as file:
            file.seek(self._read)
            text = file.read(MOST_NOTES)
            self._read += len(text)
            return text.decode("utf-8", "replace").splitlines()
        return []

    def end_reason(self) -> str | None:
        """Why no rank was seen, if that is known."""
        return next(iter(self._said), None) or self._hidden.reason() or None

    def stop(self) -> None:
        """End the command, unless it may outlive the console."""
        if not self._terms.outlives:
            command = psutil.Process(self._process.pid) if self._process.poll() is None else None
            end_watched(str((self.folder / CONSOLE_FILE).absolute()), command)
            self._process.poll()
        self.forget_if_over()

    def wait(self, tell: Callable[[str], None]) -> int:
        """Wait for the command's end; meanwhile pass signals on, and tell notices. Returns its exit code; then signals
        are this process's own again."""
        while (code := self.exit_code) is None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(LOOK_EVERY_S)
            for notice in self.take_notices():
                tell(notice)
        if self._passes_signals:
            self._passes_signals = False
            while signal.sigtimedwait(PASSED_ON, 0) is not None:  # they were for the command
                pass
            signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
        self.forget_if_over()
        return code


class AttachedLaunch(TrainingLaunch):
    """A command that another console has started."""

    def __init__(self, held: HeldTraining, folder: Path, relay: Relay, terms: Terms) -> None:
        super().__init__(folder, relay)
        self._training, self._lock, self._terms = held.training, held.lock, terms

    @property
    def exit_code(self) -> int | None:
        """None while it runs; then 0: only its parent gets to know the true one."""
        return None if self._training.runs() else 0

    def stop(self) -> None:
        if not self._terms.outlives:
            end_watched(self._training.console)
        self.forget_if_over()
        self._lock.close()
