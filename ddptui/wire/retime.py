"""Messages with shifted times: a run that was resumed on another day or clock is replayed as one sitting."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import msgspec

from ddptui.text.units import S
from ddptui.wire.records import Launched, Message

TIMES = ("at_ns", "begin_ns", "end_ns", "first_ns", "heard_ns", "said_ns")  # of messages; of collectives:
TIMES_OF_COLLECTIVES = ("called_ns", "enter_ns", "awaited_ns", "exit_ns")
LONGEST_GAP = 60 * S  # between two launches of one sitting
GAP = S  # between two sittings, as it is told
Words = TypeVar("Words", bound=msgspec.Struct)


def close_gaps(messages: Iterable[Message]) -> Iterator[Message]:
    """A run's messages, with the launches one after another: one that began long after the last one had ended, or on a
    clock that had begun anew, is told as if it had followed at once."""
    last_ns: int | None = None
    by_ns = 0
    for message in messages:
        if isinstance(message, Launched) and last_ns is not None:
            gap_ns = message.at_ns + by_ns - last_ns
            if not 0 <= gap_ns <= LONGEST_GAP:
                by_ns += GAP - gap_ns
        told = shift_times(message, by_ns) if by_ns else message
        if not hasattr(told, "rank"):  # a rank may have another clock
            last_ns = max(last_ns or 0, getattr(told, "at_ns", 0))
        yield told


def shift_times(message: Message, by_ns: int) -> Message:
    """The message with all its times later by so much."""
    return map_times(message, lambda moment_ns: moment_ns + by_ns)


def map_times(message: Message, move: Callable[[int], int]) -> Message:
    """The message with all its times, but no length of time, as `move` has them."""
    told = _moved(message, TIMES, move)
    parts = {}
    if collectives := getattr(message, "collectives", ()):
        parts["collectives"] = tuple(_moved(each, TIMES_OF_COLLECTIVES, move) for each in collectives)
    if slept := getattr(message, "slept", ()):
        parts["slept"] = tuple(_moved(each, TIMES, move) for each in slept)
    return msgspec.structs.replace(told, **parts) if parts else told


def _moved(words: Words, fields: tuple[str, ...], move: Callable[[int], int]) -> Words:
    own = {field: move(getattr(words, field)) for field in fields if hasattr(words, field)}
    return msgspec.structs.replace(words, **own)


DRIFT_PPM = 100


def clock_drift(ns: int) -> int:
    """How far two clocks may drift apart in so long."""
    return -(-abs(ns) * DRIFT_PPM // 1_000_000)
