"""A run that was resumed is told as one sitting: later, or on a clock that had begun anew."""

from collections.abc import Iterator

import msgspec
import pytest
from msgspec.structs import replace

from ddptui.wire.messages import Collective, Sampled, Slept, Step
from ddptui.wire.records import GAP, LONGEST_GAP, Launched, Message, Sittings, shift_times
from tests.support.builders import MS, ended, hello, journal, launched, one_of_each, step

LENGTHS = ("phases_ns", "queued_ns", "cpu_ns", "start_ns", "bottleneck_ns", "calls_ns", "offset_ns", "error_ns")


def times(message: object) -> list[int]:
    """All the times that a message tells, however deep."""
    found: list[int] = []

    def look(value: object, name: str = "") -> None:
        if isinstance(value, dict):
            for key, item in value.items():
                look(item, key)
        elif isinstance(value, list):
            for item in value:
                look(item)
        elif name.endswith("_ns") and name not in LENGTHS:
            found.append(int(value))  # type: ignore[call-overload]

    look(msgspec.to_builtins(message))
    return found


def close_gaps(messages: list[Message]) -> Iterator[Message]:
    """The messages as they are told."""
    sittings = Sittings()
    for message in messages:
        sittings.add(message)
        yield shift_times(message, sittings.by_ns)


@pytest.mark.parametrize("message", one_of_each(), ids=lambda message: type(message).__name__)
def test_every_time_of_every_message_is_shifted(message: Step) -> None:
    later = shift_times(message, 1000)
    assert times(later) == [each + 1000 for each in times(message)]
    assert shift_times(later, -1000) == message


def test_the_times_within_a_step_are_shifted_too() -> None:
    operation = Collective("all_reduce", 0, 8, 10, 20, 30, 40)
    whole = replace(step(), collectives=(operation,), slept=(Slept("data", 50, 60),))
    told = replace(whole, lines=(Sampled(100, 20, 7, 5),))
    later = shift_times(told, 5)
    assert isinstance(later, Step)
    assert later.collectives == (Collective("all_reduce", 0, 8, 15, 25, 35, 45),)
    assert later.slept == (Slept("data", 55, 65),)
    assert (later.phases_ns, later.lines) == (told.phases_ns, (Sampled(105, 20, 7, 5),))


def test_a_run_of_one_sitting_is_told_as_it_is() -> None:
    messages = [*journal("a", launched_ms=100), *journal("b", launched_ms=20_000)]
    assert list(close_gaps(messages)) == messages


@pytest.mark.parametrize("resumed_ms", [1, 100 + LONGEST_GAP // MS * 1000], ids=["clock begun anew", "next morning"])
def test_what_was_resumed_follows_at_once(resumed_ms: int) -> None:
    first = [launched("a", at_ms=5_000), hello(0), msgspec.structs.replace(ended(), at_ns=9_000 * MS)]
    second = [launched("b", at_ms=resumed_ms), msgspec.structs.replace(ended(), at_ns=(resumed_ms + 50) * MS)]
    *earlier, begun, over = close_gaps([*first, *second])
    assert earlier == first
    assert isinstance(begun, Launched)
    assert begun.at_ns == 9_000 * MS + GAP
    assert times(over) == [begun.at_ns + 50 * MS]
