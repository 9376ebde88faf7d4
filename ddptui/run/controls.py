"""What a user asks of a running run: inject delays, skip a trial, stop. Safe to call from any thread."""

import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import Literal

from ddptui.config.trial import Bottleneck

LAST_WORDS_S = 5.0  # after a stop, how long ranks that have finished training may take to send their results


class Controls:
    """Requests to a running run. The lab reads them between messages; the screens and tests make them."""

    def __init__(self) -> None:
        self._injections: deque[tuple[Bottleneck, ...]] = deque()
        self._skip = threading.Event()
        self._stop = threading.Event()
        self._ended_at = 0.0  # when a skip or a stop was last requested

    def inject(self, bottleneck: tuple[Bottleneck, ...]) -> None:
        """Give the ranks these delays, in place of those that they have."""
        self._injections.append(bottleneck)

    def skip(self) -> None:
        """End this launch, leave out the trial's other repeats, and go on to the next trial."""
        self._ended_at = time.monotonic()
        self._skip.set()

    def stop(self) -> None:
        """End this launch, and the run."""
        self._ended_at = time.monotonic()
        self._stop.set()

    def injections(self) -> Iterator[tuple[Bottleneck, ...]]:
        """The injections to send now; each is yielded once."""
        while self._injections:
            yield self._injections.popleft()

    def begin(self) -> None:
        """Drop what was requested of the launch before; a stop stays."""
        self._injections.clear()
        self._skip.clear()

    def cuts_short(self, *, trained: bool) -> bool:
        """Whether this launch must end now. One that has finished training gets a moment to send its results."""
        return self.end() is not None and not (trained and time.monotonic() - self._ended_at < LAST_WORDS_S)

    def end(self) -> Literal["skipped", "interrupted"] | None:
        """The status with which this launch must end; None if it may go on."""
        return "interrupted" if self._stop.is_set() else "skipped" if self._skip.is_set() else None
