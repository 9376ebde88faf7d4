"""A command of the user's own, which is watched. Its Terms say whether it ends with the console, or outlives it.

In a terminal it is as if the console were not there: the command has its input, output and error output, gets the
signals that are sent to the console, and goes on if the console ends.
"""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import psutil

from ddptui.config.trial import Trial
from ddptui.engines.base import LAUNCHER_LOG, Launch, LaunchRefused
from ddptui.engines.hub import Hub
from ddptui.engines.local.warm import StartedKeeper, end_with_keeper, start_keeper
from ddptui.host.folders import lab_root
from ddptui.host.keeper import PR_SET_PDEATHSIG, prctl, send
from ddptui.text.words import printable
from ddptui.wire.connection import CONSOLE_PID, SILENCE_S
from ddptui.wire.messages import Hello
from ddptui.wire.watching import NOTES, Watching

PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
LET_GO_AFTER_S = 60  # without a word of the console, ranks are no longer watched
END_WITHIN_S = 10.0  # from SIGTERM to SIGKILL, where the user wants the training ended
NOT_FOUND = "no such program: is it installed, and on PATH?"
NOTES_FILE = "notes"  # in the launch's folder
MOST_NOTES = 65_536  # bytes
LOOK_EVERY_S = 0.05  # while only the command's end is waited for


class Terms:
    """On which terms commands are watched. The defaults are those of a preset, whose commands belong to the console."""

    def __init__(
        self, *, in_terminal: bool = False, outlives: bool = False, elsewhere: bool = False, every: int = 1
    ) -> None:
        """in_terminal: the command has the console's input and output, and gets its signals. outlives: it goes on when
        the console lets go of it, or ends. elsewhere: it is started on other hosts, not by the console. every: so many
        steps one is reported."""
        self.in_terminal, self.outlives, self.elsewhere, self.every = in_terminal, outlives, elsewhere, every
        self.launch: ForeignLaunch | None = None  # the last one that was started

    def start(self, trial: Trial, hub: Hub, folder: Path) -> "ForeignLaunch":
        """Start a trial's command in the current folder. folder: for the log of its output. Raises LaunchRefused."""
        command, watching = [*trial.command], watching_of(trial, self.every)
        own = {**os.environ, **own_variables(trial)}
        environment = variables(own, watching, hub.rank_environment | {CONSOLE_PID: str(os.getpid())}, hub.folder)
        with refusing_launch(command):
            if self.in_terminal:
                preexec = None if self.outlives else end_with_parent
                process = subprocess.Popen(command, env=environment, preexec_fn=preexec)
            else:
                with (folder / LAUNCHER_LOG).open("wb") as log:
                    process = _start_apart(command, environment, hub.folder, log, outlives=self.outlives)
        self.launch = ForeignLaunch(process, hub.folder, self)
        return self.launch


def watching_of(trial: Trial, every: int) -> Watching:
    """What of a trial's command is reported. every: so many steps one is."""
    return Watching(skip=trial.warmup_steps, steps=trial.steps, every=every, bottleneck=trial.bottleneck)


def start_for_console_elsewhere(
    command: Sequence[str], watching: Watching, rank_environment: Mapping[str, str], folder: Path
) -> "ForeignLaunch":
    """Start a command here whose ranks a console on another host watches. folder: for what its processes note. Raises
    LaunchRefused."""
    with refusing_launch(command):
        process = subprocess.Popen(command, env=variables(os.environ, watching, rank_environment, folder))
    return ForeignLaunch(process, folder, Terms(in_terminal=True, outlives=True))


@contextmanager
def refusing_launch(command: Sequence[str]) -> Iterator[None]:
    """Turns an OSError into LaunchRefused."""
    try:
        yield
    except FileNotFoundError:
        raise LaunchRefused(f"{printable(command[0])}: {NOT_FOUND}") from None
    except OSError as error:
        raise LaunchRefused(f"{printable(command[0])}: {error.strerror}: nothing was started") from None


def variables(
    own: Mapping[str, str], watching: Watching, rank_environment: Mapping[str, str], folder: Path
) -> dict[str, str]:
    """The environment of a command: its own, and what has its ranks watched. folder: for what its processes note."""
    before = own.get("PYTHONPATH")
    path = [str(lab_root() / "workers" / "watch" / "inject"), *([before] if before is not None else [])]
    return {
        **own,
        **rank_environment,
        **watching.spell(),
        "PYTHONPATH": os.pathsep.join(path),
        NOTES: str(folder / NOTES_FILE),
        SILENCE_S: str(LET_GO_AFTER_S),
    }


def own_variables(trial: Trial) -> dict[str, str]:
    """The variables that a trial gives its command."""
    return dict(variable.split("=", 1) for variable in trial.env)


def _start_apart(
    command: list[str], environment: dict[str, str], folder: Path, log: IO[bytes], *, outlives: bool
) -> "subprocess.Popen[bytes]":
    """Start the command apart from the console's terminal, which may be closed. Raises OSError."""
    if not outlives:
        return start_keeper(command, environment, Path.cwd(), folder, log)
    return subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
    )


def end_with_parent() -> None:
    """Has the kernel end this process, which is about to become the command, when the console ends."""
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)  # not SIGKILL: torchrun ends its ranks then


class ForeignLaunch(Launch):
    """A command that runs."""

    def __init__(self, process: "subprocess.Popen[bytes]", folder: Path, terms: Terms) -> None:
        """folder: the launch's. terms: may change while it runs."""
        self._process = process
        self._notes = folder / NOTES_FILE
        self._read = 0  # bytes of the notes
        self._said: list[str] = []  # the lines about them
        self._processes: dict[int, psutil.Process] = {}
        self._terms = terms
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
        """Why processes are not watched, as they say themselves; each reason once."""
        with suppress(OSError), self._notes.open("rb") as file:
            file.seek(self._read)
            text = file.read(MOST_NOTES)
            self._read += len(text)
            reasons = dict.fromkeys(text.decode("utf-8", "replace").splitlines())
            said = [f"not watched: {printable(reason)}" for reason in reasons]
            new = [line for line in said if line not in self._said]
            self._said += new
            return new
        return []

    def end_reason(self) -> str | None:
        return next(iter(self._said), None)

    def add_rank(self, hello: Hello) -> None:
        with suppress(psutil.NoSuchProcess):
            self._processes[hello.pid] = psutil.Process(hello.pid)

    def processes(self) -> list[psutil.Process]:
        return list(self._processes.values())

    def stop(self) -> None:
        """End the command, unless it may outlive the console."""
        if self._terms.outlives:
            return
        if isinstance(self._process, StartedKeeper):
            end_with_keeper(self._process)
        else:
            end_all(self._process.pid)
            self._process.poll()

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
        return code


def end_all(pid: int) -> None:
    """End a process and its descendants: by SIGTERM, and those that are left then by SIGKILL."""
    family: list[psutil.Process] = []
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        family = [process, *process.children(recursive=True)]
    send(family, signal.SIGTERM)
    _, left = psutil.wait_procs(family, timeout=END_WITHIN_S)
    send(left, signal.SIGKILL)
    psutil.wait_procs(left, timeout=END_WITHIN_S)
