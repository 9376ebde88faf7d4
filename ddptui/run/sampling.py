"""Decides how often the ranks sample their lines of code: ten times a second, and more often while a rank is late."""

import time
from collections.abc import Sequence

from ddptui.analysis.policy import MATTERS
from ddptui.wire.messages import Step
from ddptui.wire.records import Message

PER_S, PER_S_IF_LATE = 10, 25  # the same on all ranks: otherwise the sampling itself would make one late
HOLDS_S = 10.0  # how long the higher rate lasts at least
MEMORY = 20  # steps over which a rank's idle share is averaged, about


class SamplingPace:
    """Follows how long each rank stands idle. A rank is probably late if it does so much less than another."""

    def __init__(self) -> None:
        self.per_s = PER_S
        self._idle: dict[int, tuple[float, float]] = {}  # by rank: idle time and length of its last steps, ns
        self._late_at = -HOLDS_S

    def add(self, messages: Sequence[Message]) -> bool:
        """Process the messages of ranks. Returns whether the rate has changed."""
        for step in (message for message in messages if isinstance(message, Step)):
            idle_ns, length_ns = self._idle.get(step.rank, (0.0, 0.0))
            left = 1 - 1 / MEMORY
            idle_ns = idle_ns * left + sum(max(0, call.exit_ns - call.awaited_ns) for call in step.collectives)
            self._idle[step.rank] = idle_ns, length_ns * left + step.end_ns - step.begin_ns
        shares = [idle_ns / length_ns for idle_ns, length_ns in self._idle.values() if length_ns]
        now = time.monotonic()
        if shares and max(shares) - min(shares) >= MATTERS:
            self._late_at = now
        before, self.per_s = self.per_s, PER_S_IF_LATE if now - self._late_at < HOLDS_S else PER_S
        return before != self.per_s
