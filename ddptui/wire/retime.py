"""Shifts the times of messages, so that a run resumed on another day or clock replays without gaps.

A sitting is the part of a run between two interruptions: the time for which one console had it under way.
"""

from collections.abc import Callable
from typing import TypeVar

import msgspec

from ddptui.text.words import DRIFT_PPM, S
from ddptui.wire.messages import Step
from ddptui.wire.records import Launched, Message

# Fields that hold points in time, which are shifted. All other fields in ns are durations, which are not.
TIMES = ("at_ns", "begin_ns", "end_ns", "first_ns", "heard_ns", "said_ns")
TIMES_OF_COLLECTIVES = ("called_ns", "enter_ns", "awaited_ns", "exit_ns")
LONGEST_GAP = 60 * S  # a longer gap between two launches means that a new sitting began
GAP = S  # the gap that remains between two sittings
AnyStruct = TypeVar("AnyStruct", bound=msgspec.Struct)


class Sittings:
    """Computes by how much a run's messages must be shifted to follow each other without long gaps."""

    def __init__(self) -> None:
        self.by_ns = 0  # the shift for the message that was added last
        self._last_ns: int | None = None

    def add(self, message: Message) -> None:
        """Add the run's next message, and update `by_ns` for it."""
        if isinstance(message, Launched) and self._last_ns is not None:
            gap_ns = message.at_ns + self.by_ns - self._last_ns
            if not 0 <= gap_ns <= LONGEST_GAP:  # negative: the host was rebooted, which restarts its clock
                self.by_ns += GAP - gap_ns
        if not hasattr(message, "rank"):  # only times by the console's clock: a rank may have another clock
            self._last_ns = max(self._last_ns or 0, message.at_ns + self.by_ns)


def shift_times(message: AnyStruct, by_ns: int) -> AnyStruct:
    """The message with all its times shifted by by_ns."""
    return map_times(message, lambda moment_ns: moment_ns + by_ns)


def map_times(message: AnyStruct, move: Callable[[int], int]) -> AnyStruct:
    """The message with `move` applied to all its times, but not to its durations."""
    moved = _moved(message, TIMES, move)
    if not isinstance(message, Step):
        return moved
    collectives = tuple(_moved(collective, TIMES_OF_COLLECTIVES, move) for collective in message.collectives)
    slept = tuple(_moved(delay, TIMES, move) for delay in message.slept)
    lines = tuple(_moved(sample, TIMES, move) for sample in message.lines)
    return msgspec.structs.replace(moved, collectives=collectives, slept=slept, lines=lines)


def _moved(struct: AnyStruct, fields: tuple[str, ...], move: Callable[[int], int]) -> AnyStruct:
    times = {field: move(getattr(struct, field)) for field in fields if hasattr(struct, field)}
    return msgspec.structs.replace(struct, **times)


def clock_drift(ns: int) -> int:
    """The largest drift between two clocks over a period, both in ns, rounded up."""
    return -(-abs(ns) * DRIFT_PPM // 1_000_000)
