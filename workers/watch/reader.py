"""Reads notes of a loop: in the relay, and within a rank while delays are put in there."""

from collections.abc import Callable, Iterator
from typing import Any

from ..instruments.calls import CallsBySteps
from ..instruments.clock import UNKNOWN, Clock
from ..instruments.records import Call
from .loop import Cut, Loop
from .notes import LENGTHS, NAMES, NONE, loss_of

ENDS = ("optimizer_ends", "stepped_unseen", "step_ends")


class NotedClock(Clock):
    """The clock of what is read from notes."""

    def __init__(self, at: Any) -> None:
        self.at = at

    def now(self) -> Any:
        return self.at


class LoopReader:
    """Makes steps of the notes of a loop. A call of a collective is a note by itself, or stands among them as it is."""

    def __init__(self, at: Any, ended: Callable[[Cut, list[Call]], None]) -> None:
        """at: the moment at which the first step begins. ended: called with each step and its calls."""
        self._noted = NotedClock(at)
        self._at = at  # the moment of the note that is read, on whatever clock
        # Whether a moment is not known: of the step under way; and since its last end, which may be its end.
        self.is_untimed = self.is_untimed_since = False
        self._ended = ended
        self.ends = 0  # how often an optimizer has made a step, or the loop has said that one ends
        self.place: tuple[int, int | None] = 0, None  # batches that were fetched of a pass over the data, and all of it
        self.calls = CallsBySteps(self._noted)
        self.loop = Loop(self._noted, lambda: len(self.calls.calls), self._cut)
        self.calls.timer = self.loop.timer

    def read(self, notes: Iterator[Any]) -> None:
        """Read whole notes."""
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
        """A call of the loop's."""
        is_unknown = self._at == UNKNOWN
        if name in ENDS:
            self.is_untimed |= self.is_untimed_since or is_unknown
            self.is_untimed_since = is_unknown  # the end is the next step's begin, too
        else:
            self.is_untimed_since |= is_unknown
        if isinstance(self._noted.at, int) and isinstance(self._at, int):  # no longer marks on a device
            self._noted.at = max(self._noted.at, self._at)  # on another stream it may be before the last one
        else:
            self._noted.at = self._at
        self._call(name, arguments)

    def _call(self, name: str, arguments: list[Any]) -> None:
        match name, arguments:
            case "data_ends", [samples, trains, is_first, batch, batches, loader]:
                if batch:
                    self.place = batch, None if batches == NONE else batches
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
        self.is_untimed = False  # what is not known since its end is the next step's
