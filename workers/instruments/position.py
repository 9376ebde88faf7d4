"""Where a rank is in a step, for the console, which asks when it does not come any further.

On a GPU the loop runs ahead: it has issued what the device has not come to. So what counts is what the device has
reached: the phases that are over there, the calls that it has entered, the first of them that it has not left.
"""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from ddptui.wire.messages import Position
from workers.instruments.calls import Call
from workers.instruments.clock import Clock
from workers.instruments.progress import Laps


def position_of(laps: Laps, calls: Sequence[Call], clock: Clock, *, asleep: bool) -> Position:
    """calls: of this step, in order, as far as the loop has come."""

    def is_past(moment: Any) -> bool:
        return moment is not None and clock.reached(moment)

    phases = zip(laps.phases, laps.moments[1:], strict=False)  # the loop may just be between the two
    entered = [call for call in calls if clock.reached(call.enter)]
    here = Position(laps.step, tuple(phase for phase, end in phases if is_past(end)), len(entered), asleep=asleep)
    for number, call in enumerate(entered):
        if not is_past(call.over):
            ahead = call.background and not is_past(call.awaited)
            return replace(here, number=number, kind=call.kind, root=call.root, group=call.group, ahead=ahead)
    return here
