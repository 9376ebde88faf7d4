"""What a rank records of a step: when its phases ended, which collectives it called; and what the console gets of it.

A moment is whatever the rank's clock gives: nanoseconds on the CPU, an event on a GPU.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
from torch import Tensor

from ddptui.wire.messages import Collective, Position, Slept
from ddptui.wire.phases import BETWEEN

from .clock import Clock

POINT_TO_POINT = ("send", "recv")


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


class Call(msgspec.Struct, gc=False):
    """One call of a collective. Its moments are those of wire.Collective."""

    # A plain struct, made in a fraction of a microsecond: other ranks wait for the loop meanwhile.
    kind: str
    size: int  # bytes
    root: int | None
    group: tuple[int, ...]
    forward_is_over: bool  # of the step, when it was called
    called: Any
    enter: Any
    background: bool = False  # the rank goes on meanwhile
    issued: Any = None
    thread: int = 0  # that issued it, where it runs in the background
    awaited: Any = None
    notified: Any = None  # when torch called back that it had ended, where it was asked to; perhaps late
    ended: Any = None  # when it had ended at the latest

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
    # The mean over this rank's samples, still on the device; of several losses, each as Clock.keep has it, their mean.
    loss: Tensor | Sequence[Tensor | float]
    calls: list[Call]
    buckets: bool  # calls that carry gradients carry buckets of them
    slept: tuple[Slept, ...]

    def moments(self) -> list[Any]:
        """All its moments: five for each call, then those of the phases, of which the last ends the step."""
        return [*(moment for call in self.calls for moment in call.moments()), *self.timer.moments]


def carries_gradients(call: Call) -> bool:
    """Whether it sends gradients while backward goes on."""
    return call.background and call.forward_is_over


def collective_messages(calls: Sequence[Call], times: Sequence[int], *, buckets: bool) -> tuple[Collective, ...]:
    """A step's collectives for the console, in order. times: the calls' moments in ns, five each."""
    messages = []
    next_number: dict[tuple[int, ...], int] = {}  # by group
    bucket = 0
    by_call = zip(*[iter(times)] * 5, strict=True)  # the same iterator five times: groups of five
    for call, (called_ns, enter_ns, awaited_ns, notified_ns, ended_ns) in zip(calls, by_call, strict=True):
        number = 0
        if call.kind not in POINT_TO_POINT:  # only two ranks of a group take part in those: numbers would not match
            number = next_number.get(call.group, 0)
            next_number[call.group] = number + 1
        messages.append(
            Collective(
                kind=call.kind,
                seq=number,
                bytes=call.size,
                called_ns=called_ns,
                enter_ns=enter_ns,
                awaited_ns=max(awaited_ns, enter_ns),  # torch's own threads may call it when the rank waits already
                exit_ns=min(notified_ns, ended_ns),
                root=call.root,
                group=call.group,
                bucket=bucket if buckets and carries_gradients(call) else None,
            )
        )
        bucket += carries_gradients(call)
    return tuple(messages)


def position_of(timer: PhaseTimer, calls: Sequence[Call], clock: Clock, *, asleep: bool) -> Position:
    """Where the rank is in a step. calls: those of the step so far, in order."""

    # On a GPU the loop runs ahead of its device. So the device decides: which phases have ended there, which calls it
    # has entered, and which is the first that it has not left.
    def is_past(moment: Any) -> bool:
        return moment is not None and clock.reached(moment)

    ended = zip(timer.phases, timer.moments[1:], strict=False)  # the loop may just be between the two appends
    passed = dict.fromkeys(phase for phase, end in ended if phase != BETWEEN and is_past(end))  # each once
    entered = [call for call in calls if clock.reached(call.enter)]
    position = Position(timer.step, tuple(passed), len(entered), asleep=asleep)
    for number, call in enumerate(entered):
        if not is_past(call.ended):
            ahead = call.background and not is_past(call.awaited)
            return msgspec.structs.replace(
                position, number=number, kind=call.kind, root=call.root, group=call.group, ahead=ahead
            )
    return position
