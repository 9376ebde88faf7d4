"""Messages with other times: of a run that was resumed the next morning, or on a machine started anew. Pure."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

import msgspec

from ddptui.wire import Launched, Message

TIMES = ("at_ns", "begin_ns", "end_ns", "first_ns")  # of messages; of collectives:
TIMES_OF_COLLECTIVES = ("called_ns", "enter_ns", "awaited_ns", "exit_ns")
S = 1_000_000_000  # ns
LONGEST_GAP = 60 * S  # between two launches of one sitting
GAP = S  # between two sittings, as it is told

Words = TypeVar("Words", bound=msgspec.Struct)


def in_one_sitting(messages: Iterable[Message]) -> Iterator[Message]:
    """A run's messages, with the launches one after another: one that began long after the last one had ended, or on a
    clock that had begun anew, is told as if it had followed at once."""
    last_ns: int | None = None
    by_ns = 0
    for message in messages:
        if isinstance(message, Launched) and last_ns is not None:
            gap_ns = message.at_ns + by_ns - last_ns
            if not 0 <= gap_ns <= LONGEST_GAP:
                by_ns += GAP - gap_ns
        told = shifted(message, by_ns) if by_ns else message
        last_ns = max(last_ns or 0, getattr(told, "at_ns", 0), getattr(told, "end_ns", 0))
        yield told


def shifted(message: Message, by_ns: int) -> Message:
    """The message with all its times later by so much."""
    told = _later(message, TIMES, by_ns)
    parts = {}
    if collectives := getattr(message, "collectives", ()):
        parts["collectives"] = tuple(_later(each, TIMES_OF_COLLECTIVES, by_ns) for each in collectives)
    if slept := getattr(message, "slept", ()):
        parts["slept"] = tuple(_later(each, TIMES, by_ns) for each in slept)
    return msgspec.structs.replace(told, **parts) if parts else told


def _later(words: Words, fields: tuple[str, ...], by_ns: int) -> Words:
    own = {field: getattr(words, field) + by_ns for field in fields if hasattr(words, field)}
    return msgspec.structs.replace(words, **own)
