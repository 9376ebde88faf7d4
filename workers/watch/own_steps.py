"""Numbers the steps of a loop in its own rank while delays are injected: the relay's numbers would come too late."""

from collections import deque
from typing import Any

from ..instruments.delays import RankDelays
from ..instruments.records import Call
from .loop import Cut
from .reader import LoopReader

MOST_KEPT = 1_000  # past steps that are kept to match the relay's numbers; the relay is less than a second behind


class OwnSteps:
    """Counts the steps of a watched loop within the rank, by the same rules as the relay process, and passes the number
    of each new step to the injected delays."""

    def __init__(self, delays: RankDelays, at: Any, ends: int, first: int | None, last: int | None) -> None:
        """at: the present moment, at which a step begins. ends: LoopReader.ends so far. first: the number of that step;
        None if the relay will send the number of a later one. last: the number of steps after which the delays end;
        None: never."""
        self.notes: deque[Any] = deque()
        self._delays, self._first, self._last = delays, first, last
        self._reader = LoopReader(at, self._ended)
        self._reader.ends = ends
        self._made: dict[int, int] = {}  # steps, counted from 0 here, by the reader's `ends` when they finished
        self._count = 0
        self._begin()

    def read(self) -> None:
        """Read the notes that have come so far."""
        notes, self.notes = self.notes, deque()
        self._reader.read(iter(notes))

    def depth(self, phase: str) -> int:
        """How many nested calls of a phase are in progress."""
        self.read()
        return self._reader.loop.depth(phase)

    def learn(self, step: int, ends: int) -> bool:
        """The relay has finished a step after `ends` optimizer steps and marks, and has numbered it `step`. Returns
        whether the numbers of the steps are known now."""
        self.read()
        if self._first is None and ends in self._made:
            self._first = step - self._made[ends]
            self._begin()
        return self._first is not None

    def _ended(self, step: Cut, calls: list[Call]) -> None:
        self._made[self._reader.ends] = self._count
        if len(self._made) > MOST_KEPT:
            del self._made[next(iter(self._made))]
        self._count += 1
        self._begin()

    def _begin(self) -> None:
        if self._last is not None and self._count >= self._last:
            self._delays.end()
        elif self._first is not None:
            self._delays.begin(self._first + self._count)
