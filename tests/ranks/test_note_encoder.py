"""Notes become what a relay reads, as far as the device has come."""

import marshal
from collections import deque
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from workers.instruments.clock import Clock
from workers.instruments.records import Call
from workers.watch import encoder as module
from workers.watch.encoder import NoteEncoder
from workers.watch.notes import CODES


class Mark:
    """A moment on a device."""

    def __init__(self, ns: int) -> None:
        self.event = self.ns = ns
        self.stream = "main"


class Device(Clock):
    """Comes to its marks as the test says."""

    at_ns = 0
    device = torch.device("cuda", 0)

    def reached(self, mark: Mark) -> bool:
        return mark.ns <= self.at_ns

    def resolve(self, marks: Sequence[Mark]) -> list[int] | None:
        return [mark.ns for mark in marks] if all(map(self.reached, marks)) else None


class Rank:
    def __init__(self, clock: Clock | None = None) -> None:
        self.notes: deque[Any] = deque()
        self._encoder = NoteEncoder(self.notes, clock or Clock())

    def encoded(self) -> list[Any]:
        encoded = self._encoder.encode()
        return marshal.loads(encoded) if encoded else []  # type: ignore[no-any-return]


def call(at: Any, ended: Any = None) -> Call:
    made = Call("all_reduce", 40, None, (0, 2), False, at, at)
    if ended is not None:
        made.issued = made.awaited = at
        made.ended = ended
    return made


CALL = "all_reduce", 40, None, (0, 2), ()


def test_notes_are_encoded_in_their_order() -> None:
    rank = Rank()
    rank.notes.extend((CODES["data_begins"], 5, True, CODES["backward_begins"], 6, 0.25))
    rank.notes.append(call(7, 9))
    of_call = [CODES["collective"], 7, None, *CALL, 0, 7, 7, 7, None, 9]
    assert rank.encoded() == [CODES["data_begins"], 5, True, CODES["backward_begins"], 6, 0.25, *of_call]
    assert rank.encoded() == []


def test_a_call_that_goes_on_is_told_and_its_end_once_it_has_ended() -> None:
    rank, late = Rank(), call(7)
    rank.notes.append(late)
    assert rank.encoded() == [CODES["collective"], 7, 0, *CALL, 0, 7, None, None, None, None]
    assert rank.encoded() == []
    late.issued, late.awaited, late.ended, late.background = 8, 9, 10, True
    assert rank.encoded() == [CODES["collective_ended"], 10, 0, 1, 8, 9, None, 10]
    assert rank.encoded() == []


def test_a_call_that_has_gone_on_for_too_long_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU it would hold all that the clock has known since."""
    rank = Rank()
    rank.notes.append(call(7))
    rank.encoded()
    assert len(rank._encoder._open) == 1
    monkeypatch.setattr(module, "LONGEST_S", 0.0)
    rank.encoded()
    assert len(rank._encoder._open) == 0


def test_calls_that_never_end_are_held_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_OPEN", 3)
    rank = Rank()
    rank.notes.extend(call(number) for number in range(9))
    rank.encoded()
    assert len(rank._encoder._open) == 3


def test_on_a_device_notes_are_encoded_as_far_as_it_has_come() -> None:
    device = Device()
    rank = Rank(device)
    rank.notes.extend((CODES["data_begins"], Mark(10), True))
    rank.notes.append(call(Mark(20), Mark(25)))
    rank.notes.extend((CODES["backward_ends"], Mark(30), CODES["asleep"], 99, False))
    assert rank.encoded() == []
    device.at_ns = 21
    began = [CODES["data_begins"], 10, 1]
    assert rank.encoded() == [*began, CODES["collective"], 20, 0, *CALL, 0, 20, None, None, None, None]
    assert rank._encoder.has_more
    device.at_ns = 30
    ended = [CODES["collective_ended"], 25, 0, 0, 20, 20, None, 25]
    assert rank.encoded() == [*ended, CODES["backward_ends"], 30, CODES["asleep"], 99, 0]
    assert not rank._encoder.has_more


class Hasty(Device):
    """Goes on while its marks are read."""

    def resolve(self, marks: Sequence[Mark]) -> list[int] | None:
        times = super().resolve(marks)
        self.at_ns += 10
        return times


def test_a_call_that_ends_while_the_notes_are_read_is_told_the_next_time() -> None:
    device = Hasty()
    rank, device.at_ns = Rank(device), 21
    rank.notes.append(call(Mark(20), Mark(25)))
    assert rank.encoded() == [CODES["collective"], 20, 0, *CALL, 0, 20, None, None, None, None]
    rank.notes.append(call(Mark(25), Mark(55)))
    assert rank.encoded()[-7:] == [(), 0, 25, None, None, None, None]  # the call before has ended; at 31
    assert rank.encoded() == []  # at 41, and 51 once the marks are read
    assert rank.encoded() == []
    assert rank.encoded() == [CODES["collective_ended"], 55, 1, 0, 25, 25, None, 55]
