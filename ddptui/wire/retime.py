"""Messages with shifted times: a run that was resumed on another day or clock is replayed as one sitting."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import msgspec

from ddptui.text.units import S
from ddptui.wire.records import Launched, Message

TIMES = ("at_ns", "begin_ns", "end_ns", "first_ns", "heard_ns", "said_ns")  # of messages; of collectives:
TIMES_OF_COLLECTIVES = ("called_ns", "enter_ns", "awaited_ns", "exit_ns")
LONGEST_GAP = 60 * S  # between two launches of one sitting
GAP = S  # that is left between two sittings
AnyStruct = TypeVar("AnyStruct", bound=msgspec.Struct)


def close_gaps(messages: Iterable[Message]) -> Iterator[Message]:
    """A run's messages as one sitting: a launch that began long after the one before it ended, or on a clock that had
    restarted, follows at once."""
    last_ns: int | None = None
    by_ns = 0
    for message in messages:
        if isinstance(message, Launched) and last_ns is not None:
            gap_ns = message.at_ns + by_ns - last_ns
            if not 0 <= gap_ns <= LONGEST_GAP:
                by_ns += GAP - gap_ns
        shifted = shift_times(message, by_ns) if by_ns else message
        if not hasattr(shifted, "rank"):  # a rank may have another clock
            last_ns = max(last_ns or 0, getattr(shifted, "at_ns", 0))
        yield shifted


def shift_times(message: Message, by_ns: int) -> Message:
    """The message with all its times later by so many ns."""
    return map_times(message, lambda moment_ns: moment_ns + by_ns)


def map_times(message: Message, move: Callable[[int], int]) -> Message:
    """The message with `move` applied to all its times, but not to its durations."""
    moved = _moved(message, TIMES, move)
    parts = {}
    if collectives := getattr(message, "collectives", ()):
        parts["collectives"] = tuple(_moved(each, TIMES_OF_COLLECTIVES, move) for each in collectives)
    if slept := getattr(message, "slept", ()):
        parts["slept"] = tuple(_moved(each, TIMES, move) for each in slept)
    return msgspec.structs.replace(moved, **parts) if parts else moved


def _moved(struct: AnyStruct, fields: tuple[str, ...], move: Callable[[int], int]) -> AnyStruct:
    times = {field: move(getattr(struct, field)) for field in fields if hasattr(struct, field)}
    return msgspec.structs.replace(struct, **times)


DRIFT_PPM = 100  # a generous bound for the quartz clocks of hosts


def clock_drift(ns: int) -> int:
    """How far two clocks may drift apart in a time; both in ns."""
    return -(-abs(ns) * DRIFT_PPM // 1_000_000)
