"""Injects delays into a watched training: at which of its calls, and in which of its steps."""

from collections import deque
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch

from ..instruments.delays import Delays
from .loop import FinishedStep, Loop

if TYPE_CHECKING:
    from ddptui.config.trial import Bottleneck

MOST_KEPT = 1_000  # past steps that are kept to match the relay's numbers; the relay is less than a second behind


class WatchedDelays(Delays):
    """The delays of a watched rank. Once there are any, it follows the loop by the same rules as the relay process, and
    so knows the number of each step."""

    def __init__(self, rank: int, device: torch.device, last: int | None) -> None:
        """last: the number of steps after which the delays end; None: never."""
        super().__init__(rank=rank, device=device)
        self.notes: deque[Any] = deque()  # the loop's, which are still to be read
        self._loop: Loop | None = None  # None: there were no delays so far
        self._first: int | None = None  # the number of the first step that was followed; None if not known yet
        self._last = last
        self._made: dict[int, int] = {}  # steps, counted from 0 here, by the loop's `ends` when they finished
        self._count = 0

    @property
    def follows(self) -> bool:
        """Whether it follows the loop, and needs its notes."""
        return self._loop is not None

    def follow(self, at: Any, ends: int, first: int | None) -> None:
        """Follow the loop from now on. at: the present moment, at which a step begins. ends: Loop.ends so far. first:
        the number of that step; None if the relay will send the number of a later one."""
        self._loop, self._first = Loop(at, self._step_ends), first
        self._loop.ends = ends
        self._begin_step()

    def within(self, phase: str, depth: int) -> bool:
        """Whether `depth` nested calls of a phase are in progress."""
        return self._read() and self._loop is not None and self._loop.depth(phase) == depth

    def before_collective(self) -> bool:
        return self._read() and super().before_collective()

    def learn(self, step: int, ends: int) -> bool:
        """The relay has finished a step after `ends` optimizer steps and marks, and has numbered it `step`. Returns
        whether the numbers of the steps are known now."""
        self._read()
        if self._first is None and ends in self._made:
            self._first = step - self._made[ends]
            self._begin_step()
        return self._first is not None

    def _read(self) -> bool:
        """Read the notes that have come so far. False if the loop is not followed."""
        if self._loop is None:
            return False
        notes, self.notes = self.notes, deque()
        self._loop.read(iter(notes))
        return True

    def _step_ends(self, _: FinishedStep) -> None:
        assert self._loop is not None
        self._made[self._loop.ends] = self._count
        if len(self._made) > MOST_KEPT:
            del self._made[next(iter(self._made))]
        self._count += 1
        self._begin_step()

    def _begin_step(self) -> None:
        if self._last is not None and self._count >= self._last:
            self.end()
        elif self._first is not None:
            self.begin(self._first + self._count)


def as_bottleneck(fields: dict[str, Any]) -> "Bottleneck":
    """A delay that the relay has sent, as an object with Bottleneck's fields: its module is not importable here."""
    made: Any = SimpleNamespace(**fields)
    return made  # type: ignore[no-any-return]
