"""Encodes a rank's notes as numbers for its relay; the format is in notes.py."""

import time
from array import array
from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Callable
from itertools import count
from typing import Any

from ..instruments.clock import UNKNOWN, Clock, OnItsWay
from ..instruments.records import Call
from ..instruments.shield import pass_on
from .checks import Reading
from .notes import ASIDE, CODES, LENGTHS, MOST_OPEN, NONE, bits_of

PLAIN = {int, bool}
LONGEST_S = 3_600.0  # the end of a longer call is not reported


class NoteEncoder:
    """Encodes the notes in order, up to the last one whose moment the device has reached."""

    def __init__(self, notes: "deque[Any]", clock: Clock, name: Callable[[int, Any], None]) -> None:
        """name: called with a number, and the name for which it stands in all notes that follow."""
        self._notes, self._clock, self._name = notes, clock, name
        self._held: list[Any] = []  # notes whose moments the device has not reached
        # By number: calls that had not ended when they were encoded, and when that was.
        self._open: dict[int, tuple[Call, float]] = {}
        self._numbers = count()  # numbers of such calls
        self._names: dict[Any, int] = {}
        self._readings = 0  # numbered downwards, apart from the names of collectives

    @property
    def has_more(self) -> bool:
        """Whether some notes are not yet encoded."""
        return bool(self._notes or self._held)

    def encode(self) -> bytes:
        """Encode the new notes as 64-bit numbers. Returns their bytes; empty if there is nothing new."""
        new = self._held + [self._notes.popleft() for _ in range(len(self._notes))]
        if self._clock.device is not None:
            return self._encode_reached(new)
        numbers = self._ended(self._moments, int)
        for item in new:
            if type(item) in PLAIN:
                numbers.append(item)
            elif isinstance(item, Call):
                numbers += self._collective(item, self._moments(item), int)
            else:
                numbers.append(self._number_of(item))
        return array("q", numbers).tobytes()

    def _encode_reached(self, notes: list[Any]) -> bytes:
        """Like `encode`, for a GPU: moments and losses are still on the device."""
        end = self._reached(notes)
        known, self._held = notes[:end], notes[end:]
        # Read each call's moments only once: the device and the loop's thread continue meanwhile.
        calls, open_calls = (
            [item for item in known if isinstance(item, Call)],
            [call for call, _ in self._open.values()],
        )
        moments = {id(call): self._moments(call) for call in (*calls, *open_calls)}
        begun = [at for call in calls for at in (call.called, *moments[id(call)])]
        ended = [at for call in open_calls if moments[id(call)][-1] is not None for at in moments[id(call)][1:]]
        marks = {id(item): item for item in (*known, *begun, *ended) if hasattr(item, "event")}
        times = self._resolve([*marks.values()])
        if times is None:
            self._held = notes
            return b""
        ns_of = dict(zip(marks, times, strict=True))

        def ns(mark: Any) -> int:
            return mark if isinstance(mark, int) else ns_of[id(mark)]

        numbers = self._ended(lambda call: moments[id(call)], ns)
        if accuracy := self._clock.accuracy_change():  # before the steps to which it applies
            numbers += [CODES["tied"], accuracy.from_ns, accuracy.error_ns]
        for item in known:
            if isinstance(item, Call):
                numbers += self._collective(item, moments[id(item)], ns)
            else:
                numbers.append(ns(item) if id(item) in ns_of else self._number_of(item))
        return array("q", numbers).tobytes()

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

    def _moments(self, call: Call) -> list[Any]:
        """The moments at which a call was entered, issued, awaited, notified and ended. For a call that has not ended,
        all but the first are None."""
        if call.ended is None or not self._is_reached(call.ended):
            return [call.enter, None, None, None, None]
        notified = call.notified if call.notified is not None and self._is_reached(call.notified) else None
        return [call.enter, call.issued, call.awaited, notified, call.ended]

    def _number_of(self, item: Any) -> int:
        """Encode as an integer what is not an int: None, a loss, or a number of another type."""
        if item is None:
            return NONE
        if isinstance(item, float | OnItsWay):
            return bits_of(self._clock.read(item))
        if isinstance(item, Reading):
            self._readings -= 1
            self._name(self._readings, item.read())
            return self._readings
        return int(item)

    def _collective(self, call: Call, moments: list[Any], ns: Callable[[Any], int]) -> list[int]:
        """The note of a collective, encoded."""
        enter, *others = moments
        number = NONE
        if others[-1] is None:
            number = next(self._numbers)
            self._open[number] = call, time.monotonic()
            if len(self._open) > MOST_OPEN:
                del self._open[next(iter(self._open))]
        kind, group, line = self._named(call.kind), self._named(call.group), self._named(call.line)
        root = NONE if call.root is None else call.root
        known = [ns(enter), *(NONE if one is None else ns(one) for one in others)]
        return [CODES["collective"], ns(call.called), number, kind, call.size, root, group, line, how(call), *known]

    def _ended(self, moments: Callable[[Call], list[Any]], ns: Callable[[Any], int]) -> list[int]:
        """The notes of open calls that have ended since the last call of this method, encoded. Calls open for more than
        LONGEST_S are dropped: their marks keep all later ties alive."""
        numbers: list[int] = []
        for number, (call, since_s) in list(self._open.items()):
            _, *others = moments(call)
            if others[-1] is not None:
                known = [NONE if one is None else ns(one) for one in others]
                numbers += [CODES["collective_ended"], known[-1], number, how(call), *known]
            if others[-1] is not None or time.monotonic() - since_s > LONGEST_S:
                del self._open[number]
        return numbers

    def _named(self, name: Any) -> int:
        number = self._names.get(name)
        if number is None:
            number = self._names[name] = len(self._names)
            self._name(number, name)
        return number


def length(item: Any) -> int:
    """The length of the note that begins with this item, in numbers."""
    return 1 if isinstance(item, Call) else LENGTHS[item]


def how(call: Call) -> int:
    """The code for how a call runs: 0 (the rank waits), 1 (in the background), or ASIDE (on another stream)."""
    return ASIDE if call.aside else call.background


def moment(notes: list[Any], begin: int) -> Any:
    """The moment of the note that begins at index `begin`; for a collective, when it was entered."""
    return notes[begin].enter if isinstance(notes[begin], Call) else notes[begin + 1]
