"""Numbers the steps of a loop within its rank, while delays are put in: the relay's numbers come too late for them."""

from collections import deque
from typing import Any

from ..instruments.delays import RankDelays
from ..instruments.records import Call
from .loop import Cut
from .reader import LoopReader

MOST_KEPT = 1_000  # steps whose number is looked up: the relay is less than a second behind


class OwnSteps:
    """Reads the notes of the loop as the relay does, and tells the delays which step begins."""

    def __init__(self, delays: RankDelays, at: Any, ends: int, first: int | None, last: int | None) -> None:
        """at: the moment; a step begins. ends: LoopReader's, so far. first: the number of that step; None: the relay
        will tell that of a later one. last: after so many steps the rank is let go of; None: never."""
        self.notes: deque[Any] = deque()
        self._delays, self._first, self._last = delays, first, last
        self._reader = LoopReader(at, self._ended)
        self._reader.ends = ends
        self._made: dict[int, int] = {}  # steps, counted from 0, by the reader's ends when they were cut
        self._count = 0
        self._begin()

    def read(self) -> None:
        """Read the notes so far."""
        notes, self.notes = self.notes, deque()
        self._reader.read(iter(notes))

    def depth(self, phase: str) -> int:
        """How many calls of a phase are under way, one within the other."""
        self.read()
        return self._reader.loop.depth(phase)

    def learn(self, step: int, ends: int) -> bool:
        """The relay has cut a step after so many ends, and given it this number. Returns whether the numbers are known
        by that."""
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
