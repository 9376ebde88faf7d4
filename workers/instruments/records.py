"""What a rank records of a step: when its phases ended, and which collectives it called.

A moment is whatever the rank's clock gives: nanoseconds on the CPU, an event on a GPU.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .clock import Clock

if TYPE_CHECKING:
    from torch import Tensor

    from ddptui.config.trial import Site

POINT_TO_POINT = ("send", "recv")
Slept = tuple["Site", int, int]  # a delay that was put in: where, and when it began and ended, in ns


class PhaseTimer:
    """When the phases of one step ended, in the order in which they did. In a loop that is watched, a phase may come
    more than once, and some time is in none: there `BETWEEN` ends."""

    def __init__(self, clock: Clock, step: int = 0) -> None:
        self._clock = clock
        self.step = step
        self.forward_is_over = False
        self.phases: list[str] = []
        self.moments = [clock.now()]  # the step's begin, then the end of each phase

    def end(self, phase: str) -> None:
        """The phase has ended now, and the next one begins."""
        self.phases.append(phase)
        self.moments.append(self._clock.now())
        if phase == "forward":
            self.forward_is_over = True


class Call:
    """One call of a collective. Its moments are those of wire.Collective."""

    __slots__ = (
        "aside",
        "awaited",
        "background",
        "by",
        "called",
        "ended",
        "enter",
        "forward_is_over",
        "group",
        "issued",
        "kind",
        "notified",
        "root",
        "size",
        "thread",
    )

    # As short as can be: other ranks wait for the loop meanwhile.
    def __init__(
        self,
        kind: str,
        size: int,
        root: int | None,
        group: tuple[int, ...],
        forward_is_over: bool,
        called: Any,
        enter: Any,
        by: str = "",
    ) -> None:
        """size: in bytes. forward_is_over: of the step, when it was called. by: what carries it (gpu.carrier_of); empty
        if the rank's clock is the host's."""
        self.kind, self.size, self.root, self.group = kind, size, root, group
        self.forward_is_over, self.called, self.enter = forward_is_over, called, enter
        self.by = by
        self.background = False  # the rank goes on meanwhile
        self.aside = False  # on another stream than the loop's, which may wait for it later
        self.thread = 0  # that issued it, where it runs in the background
        # notified: when torch called back that it had ended, where it was asked to; perhaps late. ended: at the latest
        self.issued: Any = None
        self.awaited: Any = None
        self.notified: Any = None
        self.ended: Any = None

    def moments(self) -> list[Any]:
        """Its five moments, in the order that `collective_messages` expects."""
        if self.ended is None:  # the loop did not wait for it
            self.awaited = self.ended = self.issued or self.enter
        return [self.called, self.enter, self.awaited, self.notified or self.ended, self.ended]


class StepRecord(NamedTuple):
    """A step as the loop leaves it."""

    step: int
    epoch: int
    timer: PhaseTimer
    samples: int
    # The mean over this rank's samples, still on the device; or several losses to be summed, as Clock.keep has each.
    loss: "Tensor | Sequence[Tensor | float]"
    calls: list[Call]
    buckets: bool  # calls that carry gradients carry buckets of them
    slept: tuple[Slept, ...]

    def moments(self) -> list[Any]:
        """All its moments: five for each call, then those of the phases, of which the last ends the step."""
        return [*(moment for call in self.calls for moment in call.moments()), *self.timer.moments]


def carries_gradients(call: Call) -> bool:
    """Whether it sends gradients while backward goes on."""
    return call.background and call.forward_is_over
