"""Encodes a rank's notes for its relay; the format is in notes.py."""

import json
import marshal
import time
from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Callable
from itertools import count
from typing import Any

from ..instruments.clock import UNKNOWN, Clock
from ..instruments.page_locked import OnItsWay
from ..instruments.records import Call
from ..instruments.shield import pass_on
from .checks import Reading
from .notes import ASIDE, CODES, LENGTHS, MARSHAL, MOST_OPEN

PLAIN = {int, bool, float, type(None)}
LONGEST_S = 3_600.0  # the end of a longer call is not reported

Moments = list[Any]  # of a call: entered, issued, awaited, notified, ended; None: not yet, or never


class NoteEncoder:
    """Encodes the notes in order, up to the last one whose moment the device has reached."""

    def __init__(self, notes: "deque[Any]", clock: Clock) -> None:
        self._notes, self._clock = notes, clock
        self._held: list[Any] = []  # notes whose moments the device has not reached
        # By number: calls that had not ended when they were encoded, and when that was.
        self._open: dict[int, tuple[Call, float]] = {}
        self._numbers = count()  # numbers of such calls

    @property
    def has_more(self) -> bool:
        """Whether some notes are not yet encoded."""
        return bool(self._notes or self._held)

    def encode(self) -> bytes:
        """Encode the new notes; empty if there is nothing new."""
        new = self._held + [self._notes.popleft() for _ in range(len(self._notes))]
        end = len(new) if self._clock.device is None else self._reached(new)
        known, self._held = new[:end], new[end:]
        calls = [item for item in known if isinstance(item, Call)]
        open_calls = [call for call, _ in self._open.values()]
        # Read each call's moments only once: the device and the loop's thread continue meanwhile.
        moments = {id(call): self._moments(call) for call in (*calls, *open_calls)}
        ns_of: dict[int, int] = {}
        if self._clock.device is not None:
            begun = [at for call in calls for at in (call.called, *moments[id(call)])]
            ended = [at for call in open_calls if moments[id(call)][-1] is not None for at in moments[id(call)][1:]]
            marks = {id(item): item for item in (*known, *begun, *ended) if hasattr(item, "event")}
            if (times := self._resolve([*marks.values()])) is None:
                self._held = new
                return b""
            ns_of = dict(zip(marks, times, strict=True))

        def ns(moment: Any) -> int | None:
            return ns_of.get(id(moment), moment)  # type: ignore[no-any-return]

        values = self._ended(moments, ns)
        if accuracy := self._clock.accuracy_change():  # before the steps to which it applies
            values += [CODES["tied"], accuracy.from_ns, accuracy.error_ns]
        for item in known:
            if type(item) in PLAIN:
                values.append(item)
            elif isinstance(item, Call):
                values += self._collective(item, moments[id(item)], ns)
            else:
                values.append(ns_of[id(item)] if id(item) in ns_of else self._value_of(item))
        return marshal.dumps(values, MARSHAL) if values else b""

    def _reached(self, notes: list[Any]) -> int:
        """The number of leading notes whose moments the device has reached, on all its streams. The marks of one stream
        are reached in order."""
        begins_by_stream: dict[Any, list[int]] = defaultdict(list)
        begin = 0
        while begin < len(notes):
            if hasattr(mark := moment(notes, begin), "event"):
                begins_by_stream[mark.stream].append(begin)
            begin += length(notes[begin])
        end = len(notes)
        for begins in begins_by_stream.values():
            reached = bisect_left(begins, True, key=lambda at: not self._is_reached(moment(notes, at)))
            end = min([end, *begins[reached : reached + 1]])
        return end

    def _resolve(self, marks: list[Any]) -> list[int] | None:
        """The moments of marks in ns, UNKNOWN for each that cannot be read. None if the device has not reached all."""
        try:
            return self._clock.resolve(marks)
        except RuntimeError as error:
            pass_on(error)
            if len(marks) == 1:
                return [UNKNOWN]
        each = [times for mark in marks if (times := self._resolve([mark]))]
        return [ns for [ns] in each] if len(each) == len(marks) else None

    def _is_reached(self, mark: Any) -> bool:
        return isinstance(mark, int) or self._clock.reached(mark)

    def _moments(self, call: Call) -> Moments:
        if call.ended is None or not self._is_reached(call.ended):
            return [call.enter, None, None, None, None]
        notified = call.notified if call.notified is not None and self._is_reached(call.notified) else None
        return [call.enter, call.issued, call.awaited, notified, call.ended]

    def _value_of(self, item: Any) -> Any:
        """A loss, a reading, or a number of another type than Python's own, as it is sent."""
        if isinstance(item, OnItsWay):
            return self._clock.read(item)
        return json.dumps(item.read()) if isinstance(item, Reading) else int(item)

    def _collective(self, call: Call, moments: Moments, ns: Callable[[Any], int | None]) -> list[Any]:
        """The note of a collective, encoded."""
        number = None
        if moments[-1] is None:
            number = next(self._numbers)
            self._open[number] = call, time.monotonic()
            if len(self._open) > MOST_OPEN:
                del self._open[next(iter(self._open))]
        names = call.kind, call.size, call.root, call.group, call.line
        return [CODES["collective"], ns(call.called), number, *names, how(call), *map(ns, moments)]

    def _ended(self, moments: dict[int, Moments], ns: Callable[[Any], int | None]) -> list[Any]:
        """The notes of open calls that have ended since the last call of this method, encoded. Calls open for more than
        LONGEST_S are dropped: their marks keep all later ties alive."""
        values: list[Any] = []
        for number, (call, since_s) in list(self._open.items()):
            _, *others = map(ns, moments[id(call)])
            if others[-1] is not None:
                values += [CODES["collective_ended"], others[-1], number, how(call), *others]
            if others[-1] is not None or time.monotonic() - since_s > LONGEST_S:
                del self._open[number]
        return values


def length(item: Any) -> int:
    """The length of the note that begins with this item, in numbers."""
    return 1 if isinstance(item, Call) else LENGTHS[item]


def how(call: Call) -> int:
    """The code for how a call runs: 0 (the rank waits), 1 (in the background), or ASIDE (on another stream)."""
    return ASIDE if call.aside else call.background


def moment(notes: list[Any], begin: int) -> Any:
    """The moment of the note that begins at index `begin`; for a collective, when it was entered."""
    return notes[begin].enter if isinstance(notes[begin], Call) else notes[begin + 1]
