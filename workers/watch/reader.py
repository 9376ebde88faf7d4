"""Reads the notes of a training loop: in the relay, and in the rank itself while delays are injected there."""

from collections.abc import Callable, Iterator
from typing import Any

from ..instruments.calls import CallsBySteps
from ..instruments.clock import UNKNOWN, Clock
from ..instruments.records import Call
from .loop import Cut, Loop
from .notes import LENGTHS, NAMES, NONE, loss_of

ENDS = ("optimizer_ends", "stepped_unseen", "step_ends")


class NotedClock(Clock):
    """A clock whose time is that of the notes read so far."""

    def __init__(self, at: Any) -> None:
        self.at = at

    def now(self) -> Any:
        return self.at


class LoopReader:
    """Derives steps from the notes of a loop. Collectives are notes of their own, or Call objects among the notes."""

    def __init__(self, at: Any, ended: Callable[[Cut, list[Call]], None]) -> None:
        """at: the moment at which the first step begins. ended: called with each finished step and its collectives."""
        self._noted = NotedClock(at)
        self._at = at  # the moment of the note being read, on whatever clock
        # Whether any moment is unknown: in the current step; and since the last optimizer step, which may be its end.
        self.is_untimed = self.is_untimed_since = False
        self._ended = ended
        self.ends = 0  # optimizer steps and marked step ends so far
        self.place: tuple[int, int | None] = 0, None  # batches fetched in the current pass, and batches in the pass
        self.calls = CallsBySteps(self._noted)
        self.loop = Loop(self._noted, lambda: len(self.calls.calls), self._cut)
        self.calls.timer = self.loop.timer

    def read(self, notes: Iterator[Any]) -> None:
        """Read notes, each of which must be complete."""
        for code in notes:
            if isinstance(code, Call):
                self._collective(code)
                continue
            name = NAMES[code]
            self._at, *arguments = (next(notes) for _ in range(LENGTHS[code] - 1))
            self.ends += name in ENDS
            self._take(name, arguments)

    def _collective(self, call: Call) -> None:
        call.forward_is_over = self.loop.timer.forward_is_over
        self.calls.calls.append(call)

    def _take(self, name: str, arguments: list[Any]) -> None:
        """Process the note of a call of the loop's."""
        is_unknown = self._at == UNKNOWN
        if name in ENDS:
            self.is_untimed |= self.is_untimed_since or is_unknown
            self.is_untimed_since = is_unknown  # this end also is the begin of the next step
        else:
            self.is_untimed_since |= is_unknown
        if isinstance(self._noted.at, int) and isinstance(self._at, int):  # not marks on a device
            self._noted.at = max(self._noted.at, self._at)  # on another stream, a note may be earlier than the last
        else:
            self._noted.at = self._at
        self._call(name, arguments)

    def _call(self, name: str, arguments: list[Any]) -> None:
        match name, arguments:
            case "data_ends", [samples, trains, is_first, batch, batches, loader]:
                if batch:
                    self.place = batch, None if batches == NONE else batches
                elif trains and samples == NONE:  # the pass is over
                    self.place = self.place[0], self.place[0]
                self.loop.data_ends(None if samples == NONE else samples, bool(trains), bool(is_first), loader)
            case "backward_begins", [has_loss, loss]:
                self.loop.backward_begins(loss_of(loss) if has_loss else None)
            case "step_ends", [has_loss, loss, samples]:
                self.loop.step_ends(loss_of(loss) if has_loss else None, samples)
            case (("data_begins" | "forward_begins" | "forward_ends"), [trains]):
                getattr(self.loop, name)(bool(trains))
            case _:
                if hasattr(self.loop, name):
                    getattr(self.loop, name)(*arguments)

    def _cut(self, step: Cut) -> None:
        self._ended(step, self.calls.cut(step.calls, step.following))
        self.is_untimed = False  # unknown moments since the step's end concern the next step
