"""The interface of an engine, which starts launches, and of a launch, wherever its processes run."""

from typing import Protocol

import psutil

from ddptui.config.trial import StartKind, Trial
from ddptui.engines.hub import Hub
from ddptui.store.journal import RepeatJournal
from ddptui.wire.messages import Hello

LAUNCHER_LOG = "launcher.log"  # in the folder of a repeat: what its launcher, or a watched command, printed
ELSEWHERE = "elsewhere"  # the status of a process on another host
REMOTE_SILENCE_S = "30"  # ranks on other hosts end when the console has sent nothing for so long


class LaunchRefused(OSError):
    """The engine cannot start this launch. One line that says why."""


class Launch(Protocol):
    """One launch. Its processes may start later and on other hosts: a job waits in a queue, a node has yet to join."""

    start: StartKind = "cold"  # warm: its ranks were forked from a process that has imported torch
    start_why: str = ""  # why it is cold, where the trial does not ask for it
    ends_with_ranks: bool = False  # there is no process of it whose end could be waited for

    # The answers given here are those of a launch on other hosts, where the console cannot look at processes.

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative: the number of the signal that ended it."""

    @property
    def is_waiting(self) -> bool:
        """Queued or waiting for nodes; no ranks expected yet."""
        return False

    def take_notices(self) -> list[str]:
        """What the launch waits for, or has become, since the last call. Called often: it has to be fast."""
        return []

    def end_reason(self) -> str | None:
        """Why it ended, where the engine knows more than the ranks: its time was up, a node was lost."""
        return None

    def add_rank(self, hello: Hello) -> None:
        """Registers a rank that has connected to the console."""
        return None

    def end_relay(self) -> None:
        """Has what stands between the ranks of a watched training and the console send what has come, and end."""
        return None

    def processes(self) -> list[psutil.Process]:
        """Its processes on this host."""
        return []

    def stopped_processes(self) -> list[int]:
        """The ids of those that are stopped, as by SIGSTOP."""
        return []

    def process_status(self, hello: Hello) -> str | None:
        """The status of a rank's process, as psutil names it, or ELSEWHERE; None: the process is gone."""
        return ELSEWHERE

    def helpers_work(self, hello: Hello) -> bool:
        """Whether a process below the rank is busy, such as a compiler. Expensive: it walks the process tree."""
        return False

    def stop(self) -> None:
        """Ends every process of the launch, wherever it runs, and waits until none is left."""


class Engine(Protocol):
    """Starts the launches of one run, one after another."""

    is_local: bool = False  # whether the ranks are processes of this host

    def command(self, trial: Trial, repeat: RepeatJournal) -> list[str]:
        """The command that starts the launch, as it is recorded and shown."""

    def environment(self, trial: Trial) -> dict[str, str]:
        """The variables that the command needs to be typed again without a console."""

    def open_hub(self, world_size: int) -> Hub:
        """The hub to which the ranks of the next launch connect. Raises OSError."""

    def is_ready(self, trial: Trial, timeout_s: float) -> bool:
        """Whether `start` could start it without a wait. May wait for that, at most so long."""
        return True

    def start(self, trial: Trial, command: list[str], repeat: RepeatJournal, hub: Hub) -> Launch:
        """Raises OSError, and LaunchRefused."""

    def close(self) -> str | None:
        """Releases what the engine holds for the run. Called once the last launch has ended. Returns why a job may be
        left, and what ends it; None: none is."""
        return None
