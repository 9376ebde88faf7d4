"""What an engine's file in this folder gives: something that starts launches, and a launch that has been started,
wherever its processes are."""

from typing import Protocol

import psutil

from ddptui.config.trial import Trial
from ddptui.engines.hub import Hub
from ddptui.store.journal import RepeatJournal
from ddptui.wire.messages import Hello

ELSEWHERE = "elsewhere"  # the status of a process that cannot be looked at from here


class LaunchRefused(OSError):
    """A launch that its engine has refused: one line."""


class Launch(Protocol):
    """One launch. It may be started somewhere else, and later: a job waits in a queue, a node has not joined yet."""

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative: the signal that ended it."""

    @property
    def is_waiting(self) -> bool:
        """It has not begun, and that is nobody's fault: no rank can be expected."""

    def news(self) -> list[str]:
        """What it waits for, or has become, if there is something that has not been said yet. Called often: it has to
        be quick, and looks less often than it is asked."""

    def why(self) -> str | None:
        """Why it ended, where the engine knows better than the ranks: its time was up, a node was cut off."""

    def meet(self, hello: Hello) -> None:
        """A rank has said Hello."""

    def family(self) -> list[psutil.Process]:
        """Its processes on this host."""

    def stopped(self) -> list[int]:
        """Those of them that are stopped, as by SIGSTOP."""

    def status(self, hello: Hello) -> str | None:
        """What a rank's process does, in psutil's words, or ELSEWHERE; None: it is gone."""

    def helpers_work(self, hello: Hello) -> bool:
        """Whether a process that a rank has started works for it, as a compiler does. Looking costs: ask rarely."""

    def stop(self) -> None:
        """End it, wherever it is; return when nothing is left, in a queue or on a node."""


class RemoteLaunch:
    """What a launch says of its processes that cannot be looked at from here."""

    def family(self) -> list[psutil.Process]:
        return []

    def stopped(self) -> list[int]:
        return []

    def status(self, hello: Hello) -> str | None:
        return ELSEWHERE

    def helpers_work(self, hello: Hello) -> bool:
        return False


class Engine(Protocol):
    """Starts the launches of one run, one after another."""

    is_here: bool  # the ranks are processes of this host

    def command(self, trial: Trial, repeat: RepeatJournal) -> list[str]:
        """What is started: it is recorded, and shown."""

    def environment(self, trial: Trial) -> dict[str, str]:
        """What the command needs besides, to be typed again without a console."""

    def hub(self, world_size: int) -> Hub:
        """Where the ranks of the next launch meet the console. Raises OSError."""

    def start(self, trial: Trial, command: list[str], repeat: RepeatJournal, hub: Hub) -> Launch:
        """Raises OSError, LaunchRefused."""

    def close(self) -> None:
        """The run is over, however it went."""
