"""What a rank records of a step: when its phases ended, and which collectives it called.

A moment is a mark of the rank's clock: nanoseconds on the CPU, an event on a GPU.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from .clock import Clock

if TYPE_CHECKING:
    from torch import Tensor

    from ddptui.config.trial import Site

POINT_TO_POINT = ("send", "recv")
Slept = tuple["Site", int, int]  # an injected delay: site, begin and end in ns


class PhaseTimer:
    """The phases of one step in order, and when each ended. In a watched loop, a phase may occur several times, and
    time between phases is recorded as `BETWEEN`."""

    def __init__(self, clock: Clock, step: int = 0) -> None:
        self._clock = clock
        self.step = step
        self.forward_is_over = False
        self.phases: list[str] = []
        self.moments = [clock.now()]  # the step's begin, then the end of each phase

    def end(self, phase: str) -> None:
        """Record that this phase ends now, and the next one begins."""
        self.phases.append(phase)
        self.moments.append(self._clock.now())
        if phase == "forward":
            self.forward_is_over = True


@dataclass(slots=True, eq=False)
class Call:
    """One call of a collective. Its moments are those of wire.messages.Collective."""

    kind: str
    size: int  # bytes
    root: int | None
    group: tuple[int, ...]
    forward_is_over: bool  # whether the step's forward was over at the call
    called: Any
    enter: Any
    by: str = ""  # what carries the collective (gpu.carrier_of); empty if the rank's clock is the host's
    line: Any = ()  # the line of the user's code that called it, and its callers, if looked at
    background: bool = False  # whether the rank continues meanwhile
    aside: bool = False  # whether it is on another stream than the loop's, which may wait for it later
    thread: int = 0  # the thread that issued it, if it runs in the background
    issued: Any = None
    awaited: Any = None
    notified: Any = None  # when torch called back at its end, if asked to; may be late
    ended: Any = None  # when it has ended at the latest

    def moments(self) -> list[Any]:
        """The five moments, in the order that `collective_messages` expects."""
        if self.ended is None:  # the loop did not wait for it
            self.awaited = self.ended = self.issued or self.enter
        return [self.called, self.enter, self.awaited, self.notified or self.ended, self.ended]


class StepRecord(NamedTuple):
    """The record of a step that the loop has finished; its device may be behind."""

    step: int
    epoch: int
    timer: PhaseTimer
    samples: int
    # The mean over this rank's samples, still on the device; or several losses to be summed, each from Clock.keep.
    loss: "Tensor | Sequence[Tensor | float]"
    calls: list[Call]
    buckets: bool  # whether calls that carry gradients carry buckets
    slept: tuple[Slept, ...]

    def moments(self) -> list[Any]:
        """All moments: five per call, then the step's begin and the end of each phase; the last one ends the step."""
        return [*(moment for call in self.calls for moment in call.moments()), *self.timer.moments]


def carries_gradients(call: Call) -> bool:
    """Whether a call sends gradients while backward continues."""
    return call.background and call.forward_is_over
