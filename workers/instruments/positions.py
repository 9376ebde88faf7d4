"""Computes a rank's position in its step, for the heartbeats."""

from collections.abc import Sequence
from typing import Any

import msgspec

from ddptui.wire.messages import Position
from ddptui.wire.phases import BETWEEN

from .clock import Clock
from .records import Call, PhaseTimer


def position_of(timer: PhaseTimer | None, calls: Sequence[Call], clock: Clock, *, asleep: bool) -> Position:
    """The position of a rank in its step. timer: None between two steps. calls: the step's calls so far, in order."""
    if timer is None:
        return Position()

    # On a GPU the loop runs ahead of its device. So we report the device's position: which phases have ended there,
    # which calls it has entered, and which is the first call that it has not completed.
    def is_past(moment: Any) -> bool:
        return moment is not None and clock.reached(moment)

    ended = zip(timer.phases, timer.moments[1:], strict=False)  # the loop may be between its two appends
    passed = dict.fromkeys(phase for phase, end in ended if phase != BETWEEN and is_past(end))  # without repetitions
    entered = [call for call in calls if clock.reached(call.enter)]
    position = Position(timer.step, tuple(passed), len(entered), asleep=asleep)
    for number, call in enumerate(entered):
        if not is_past(call.ended):
            ahead = call.background and not is_past(call.awaited)
            return msgspec.structs.replace(
                position,
                number=number,
                kind=call.kind,
                root=call.root,
                group=call.group,
                ahead=ahead,
                bytes=call.size,
            )
    return position
