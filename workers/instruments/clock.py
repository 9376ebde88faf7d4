"""The clock of a rank's work: the host's own, or on a GPU the moments at which its stream gets there.

The training loop never waits for a GPU. A mark is a CUDA event on the caller's stream. The reporter's thread reads it
later, by its distance from a tie: an event whose host time is known. Two oscillators drift apart, and the distance
between two events is a float32 of milliseconds. So new ties are made again and again, and a mark is read by the tie
that was current when it was taken.
"""

import time
from collections.abc import Sequence
from threading import Lock
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ddptui.wire.retime import clock_drift

TIE_EVERY_NS = 200_000_000  # as often as the reporter sends: at a drift of 100 ppm that is 20 µs
LIFE_NS = 2 * TIE_EVERY_NS  # of a tie, until its last mark is taken: a reported error should hold that long
TRIES = 3  # for each tie
FIRST_TRIES = 10  # at the start there is time for more
PATIENCE_NS = 200_000  # for one try: the thread that tries holds Python's lock
FIRST_PATIENCE_NS = 10_000_000_000
RESOLUTION_NS = 1_000  # CUDA's is half of it; that of a float32 of some seconds in ms is about as much


class Accuracy(NamedTuple):
    """From a moment on, times are off by at most error_ns of the host's clock."""

    from_ns: int
    error_ns: int


class Clock:
    """Takes marks in time now, and reads them later. This is the host's own, for the CPU: a call ends with its work."""

    def now(self) -> Any:
        """A mark: the device has finished all that this thread has given it so far. Cheap, and safe in any thread."""
        return time.monotonic_ns()

    def at_once(self) -> Any:
        """A mark of the host's present moment, whatever the device still has to do."""
        return time.monotonic_ns()

    def reached(self, mark: Any) -> bool:
        """Whether the device has reached a mark."""
        return True

    def resolve(self, marks: Sequence[Any]) -> list[int] | None:
        """The marks in ns of the host's clock; None until the device has reached all of them. Raises RuntimeError."""
        return list(marks)

    def read(self, tensor: Tensor) -> float:
        """A number off the device, without waiting for work that is queued behind it. A mark that was taken after the
        number must have been resolved."""
        return float(tensor.item())

    def accuracy_change(self) -> Accuracy | None:
        """The accuracy from now on, if it has changed since the last call. The host's own clock never changes."""
        return None


class Tie(NamedTuple):
    """An event whose host time is known, within error_ns."""

    event: torch.cuda.Event
    at_ns: int
    error_ns: int

    def ns_of(self, event: torch.cuda.Event) -> int:
        """The host time of a later event."""
        ms: float = self.event.elapsed_time(event)
        return self.at_ns + round(ms * 1e6)

    def error_after(self, ns: int) -> int:
        """The error of a time that is so much later, in ns."""
        return self.error_ns + clock_drift(ns)  # two oscillators


class Mark(NamedTuple):
    """An event, and the tie that was current when it was taken, so an earlier one."""

    event: torch.cuda.Event
    tie: Tie


class CudaClock(Clock):
    """The clock of a GPU, where a call returns before its work is done."""

    def __init__(self, device: torch.device) -> None:
        """Raises RuntimeError if the GPU does not answer."""
        self._device = device
        # torch deals streams out of pools, one pool a priority, the same streams again and again. Callbacks of futures
        # get ordinary streams, and wait on collectives there; gloo gets those of the highest priority. This priority
        # lies between, and torch uses it for nothing else. On a GPU with only two priorities it is gloo's, too. Then a
        # tie may fail, and the one before stays; a value or a mark of the host may be late by one of gloo's copies.
        self._side = torch.cuda.Stream(device, priority=-1)
        self._lock = Lock()  # replicas of one process may share a clock, and each has its own reporter
        self._reported_ns = 0  # the error that was reported last
        self._unreported: Accuracy | None = None
        first = self._best_of(FIRST_TRIES, FIRST_PATIENCE_NS)
        if first is None:
            seconds = FIRST_PATIENCE_NS // 10**9
            raise RuntimeError(f"{device} did not answer within {seconds} s: look with nvidia-smi at who keeps it busy")
        self._tie = first
        self._due_ns = first.at_ns + TIE_EVERY_NS

    def now(self) -> Mark:
        return self._on(torch.cuda.current_stream(self._device))  # of this thread, whose current device may be another

    def at_once(self) -> Mark:
        return self._on(self._side)

    def reached(self, mark: Mark) -> bool:
        try:
            return bool(mark.event.query())
        except RuntimeError:  # the device has failed, which the loop will notice, too: it will never get there
            return False

    def resolve(self, marks: Sequence[Mark]) -> list[int] | None:
        # A call has the same mark in several places. The driver is asked once for each mark: meanwhile this thread
        # holds Python's lock, and the loop may wait for it.
        unique = {id(mark): mark for mark in marks}
        with self._lock:
            self._tie_anew()
            # The last mark first, as it is the likeliest to be missing; all of them, as they are of several streams.
            if not all(mark.event.query() for mark in reversed(unique.values())):  # raises if the device has failed
                return None
            # By the oldest of their ties: so they keep the device's order, and none is before its tie.
            tie = min((mark.tie for mark in unique.values()), key=lambda tie: tie.at_ns)
            ns = {key: tie.ns_of(mark.event) for key, mark in unique.items()}
            times = [ns[id(mark)] for mark in marks]
            self._note_error(tie, times)
            return times

    def read(self, tensor: Tensor) -> float:
        with torch.cuda.stream(self._side):  # a copy from the device waits only for its own stream
            return float(tensor.item())

    def accuracy_change(self) -> Accuracy | None:
        with self._lock:
            unreported, self._unreported = self._unreported, None
            return unreported

    def _on(self, stream: torch.cuda.Stream) -> Mark:
        tie = self._tie  # before the event: another thread may make a new one meanwhile
        event = torch.cuda.Event(enable_timing=True)
        event.record(stream)
        return Mark(event, tie)

    def _note_error(self, tie: Tie, times: Sequence[int]) -> None:
        """Note the accuracy to report: anew when the last one no longer holds, or when times are twice as accurate."""
        age_ns = max(times) - tie.at_ns
        enough_ns = tie.error_after(max(LIFE_NS, 2 * age_ns))
        if tie.error_after(age_ns) > self._reported_ns or 2 * enough_ns < self._reported_ns:
            self._reported_ns = enough_ns
            self._unreported = Accuracy(min(times), enough_ns)

    def _tie_anew(self) -> None:
        """Make a new tie if one is due. The old one stays if it is better, as on a device that answers late."""
        now_ns = time.monotonic_ns()
        if now_ns < self._due_ns:
            return
        self._due_ns = now_ns + TIE_EVERY_NS
        new = self._best_of(TRIES, PATIENCE_NS)
        if new is not None and new.error_ns <= self._tie.error_after(new.at_ns - self._tie.at_ns):
            self._tie = new

    def _best_of(self, tries: int, patience_ns: int) -> Tie | None:
        """The narrowest tie of several tries; None if the device is busy, and the first try has taken too long."""
        ties: list[Tie] = []
        while len(ties) < tries and (tie := self._try(patience_ns)):
            ties.append(tie)
        return min(ties, key=lambda tie: tie.error_ns, default=None)

    def _try(self, patience_ns: int) -> Tie | None:
        """One try: the device reached the event between the moment before it was recorded and the moment of its end."""
        event = torch.cuda.Event(enable_timing=True)
        begin_ns = time.monotonic_ns()
        event.record(self._side)
        while not event.query():
            if time.monotonic_ns() - begin_ns > patience_ns:
                return None
        width_ns = time.monotonic_ns() - begin_ns
        return Tie(event, begin_ns + width_ns // 2, width_ns // 2 + RESOLUTION_NS)


def clock_of(device: torch.device) -> Clock:
    """The clock of a device. Raises RuntimeError for a GPU that does not answer."""
    return CudaClock(device) if device.type == "cuda" else Clock()
