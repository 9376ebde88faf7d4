"""The collectives that a rank has called, step by step."""

from collections import deque
from typing import TYPE_CHECKING

from .clock import Clock
from .records import Call, PhaseTimer

if TYPE_CHECKING:
    from ddptui.wire.messages import Position


class CallsBySteps:
    """The calls of the step under way, and those of steps that the device has yet to make."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.timer: PhaseTimer | None = None  # none: between two steps
        self.calls: list[Call] = []  # always the same list
        self._behind: deque[tuple[PhaseTimer, list[Call]]] = deque()

    def cut(self, number: int, following: PhaseTimer | None) -> list[Call]:
        """The step has ended, perhaps some time ago: it had the first `number` calls, which are returned. Those since
        then belong to the step that follows."""
        calls = self.calls[:number]
        del self.calls[:number]
        if self.timer is not None:
            self._behind.append((self.timer, calls))
        while self._behind and self._clock.reached(self._behind[0][0].moments[-1]):
            self._behind.popleft()
        self.timer = following
        return calls

    def position(self, *, asleep: bool) -> "Position":
        """Where the rank's device is, which may be steps behind its loop. asleep: the rank is, in a delay put in."""
        from .positions import position_of  # late: a process that is watched has no library for messages

        # The reporter's thread asks while the loop goes on: hence the copies.
        timer, calls = self.timer, list(self.calls)
        behind = [step for step in list(self._behind) if not self._clock.reached(step[0].moments[-1])]
        if behind:
            timer, calls = behind[0]
        return position_of(timer, calls, self._clock, asleep=asleep)
