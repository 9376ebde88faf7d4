"""Groups the collectives that a rank has called by step."""

from collections import deque
from typing import TYPE_CHECKING

from .clock import Clock
from .records import Call, PhaseTimer

if TYPE_CHECKING:
    from ddptui.wire.messages import Position


class CallsBySteps:
    """The calls of the current step, and of earlier steps that the device has not finished."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.timer: PhaseTimer | None = None  # None between two steps
        self.calls: list[Call] = []  # always this list object: the tap keeps its `append`
        self._behind: deque[tuple[PhaseTimer, list[Call]]] = deque()

    def cut(self, number: int, following: PhaseTimer | None) -> list[Call]:
        """Finish a step that has ended, perhaps some time ago. Its calls are the first `number`, which are returned;
        later calls belong to the next step. following: the next step's timer."""
        calls = self.calls[:number]
        del self.calls[:number]
        if self.timer is not None:
            self._behind.append((self.timer, calls))
        while self._behind and self._clock.reached(self._behind[0][0].moments[-1]):
            self._behind.popleft()
        self.timer = following
        return calls

    def position(self, *, asleep: bool) -> "Position":
        """The position of the rank's device, which may be steps behind its loop. asleep: whether the rank is in an
        injected delay."""
        from .positions import position_of  # late: a watched process may lack msgspec

        # Copies, since the reporter's thread calls this while the loop continues.
        timer, calls = self.timer, list(self.calls)
        behind = [step for step in list(self._behind) if not self._clock.reached(step[0].moments[-1])]
        if behind:
            timer, calls = behind[0]
        return position_of(timer, calls, self._clock, asleep=asleep)
