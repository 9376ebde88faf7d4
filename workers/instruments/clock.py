"""What time it is for a rank's work: the host's clock, or on a GPU the moments at which its stream gets there.

Nothing in the training loop waits for a GPU. A mark is a CUDA event on the stream of whoever takes it, and is read
later, in the reporter's thread, by how long it came after an event of which the host's time is known: a tie. Two
oscillators drift apart, and the distance between two events is a float32 of milliseconds: so ties are made anew, and a
mark is read by the one that was in force when it was taken.
"""

import time
from collections.abc import Sequence
from threading import Lock
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from ddptui.wire.retime import clock_drift

TIE_EVERY_NS = 200_000_000  # as often as the reporter looks: at 100 ppm that is 20 µs
LIFE_NS = 2 * TIE_EVERY_NS  # of a tie, until its last mark is taken: what is told of its error should hold that long
TRIES = 3  # to tie; the first time there is time for more
FIRST_TRIES = 10
PATIENCE_NS = 200_000  # with one try: the thread that asks keeps Python's lock
FIRST_PATIENCE_NS = 10_000_000_000
RESOLUTION_NS = 1_000  # CUDA gives half of it; a float32 of some seconds as much


class Accuracy(NamedTuple):
    """From this moment on, times are off by so much at most, ns."""

    from_ns: int
    error_ns: int


class Clock(Protocol):
    def now(self) -> Any:
        """A mark in time, cheap to take, in any thread: when the device is through with all that it was given in it."""

    def at_once(self) -> Any:
        """A mark of the host's own moment: the device gets there now, whatever it has to do."""

    def reached(self, mark: Any) -> bool:
        """Whether the device has got there."""

    def resolve(self, marks: Sequence[Any]) -> list[int] | None:
        """The marks in ns of the host's monotonic clock, in the order of the device; None while it has not reached all
        of them. Raises RuntimeError if the device has failed."""

    def read(self, tensor: Tensor) -> float:
        """A number off the device, without waiting for what is queued behind it: a mark that was taken after it has
        been resolved."""

    def accuracy_change(self) -> Accuracy | None:
        """How exact times are from now on, if that has changed since it was last asked; never for the host's own."""


class HostClock:
    """On the CPU, work is done when the call returns."""

    now = at_once = staticmethod(time.monotonic_ns)

    def reached(self, mark: int) -> bool:
        return True

    def resolve(self, marks: Sequence[int]) -> list[int] | None:
        return list(marks)

    def read(self, tensor: Tensor) -> float:
        return float(tensor.item())

    def accuracy_change(self) -> Accuracy | None:
        return None


class Tie(NamedTuple):
    """An event of which the host's time is known, within error_ns."""

    event: torch.cuda.Event
    at_ns: int
    error_ns: int

    def ns_of(self, event: torch.cuda.Event) -> int:
        """The host's time of a later one."""
        ms: float = self.event.elapsed_time(event)
        return self.at_ns + round(ms * 1e6)

    def error_after(self, ns: int) -> int:
        return self.error_ns + clock_drift(ns)


class Mark(NamedTuple):
    """tie: the one that was in force, and so came before it."""

    event: torch.cuda.Event
    tie: Tie


class CudaClock:
    """On a GPU a call returns before its work is done."""

    def __init__(self, device: torch.device) -> None:
        """Raises RuntimeError for a GPU that does not answer."""
        self._device = device
        # Streams are dealt out of pools again and again: ordinary ones also to callbacks of futures, where they wait on
        # collectives; those of the highest priority to gloo. Each priority has a pool of its own, and this one lies
        # between, where nobody asks. On a GPU that has but two it is gloo's, too: then a tie may fail, and the one
        # before stays; a value, or a mark of the host's moment, may come later by a copy of gloo's.
        self._side = torch.cuda.Stream(device, priority=-1)
        self._lock = Lock()  # replicas of one process may share a clock, each with a reporter of its own
        self._told_ns = 0  # how far off times are, as it was said last
        self._untold: Accuracy | None = None
        first = self._best_of(FIRST_TRIES, FIRST_PATIENCE_NS)
        if first is None:
            seconds = FIRST_PATIENCE_NS // 10**9
            raise RuntimeError(f"{device} did not answer within {seconds} s: look with nvidia-smi at who keeps it busy")
        self._tie = first
        self._due_ns = first.at_ns + TIE_EVERY_NS

    def now(self) -> Mark:
        return self._on(torch.cuda.current_stream(self._device))  # of this thread; whose current device may be another

    def at_once(self) -> Mark:
        return self._on(self._side)

    def reached(self, mark: Mark) -> bool:
        try:
            return bool(mark.event.query())
        except RuntimeError:  # the device has failed, as the loop will notice, too: it gets nowhere any more
            return False

    def resolve(self, marks: Sequence[Mark]) -> list[int] | None:
        """By the oldest of their ties: so they stay in the device's order, and none is earlier than its tie. A call has
        one mark in several places: the driver is asked once for each, since meanwhile the loop waits for Python's lock.
        """
        each = {id(mark): mark for mark in marks}
        with self._lock:
            self._tie_anew()
            if not all(mark.event.query() for mark in reversed(each.values())):  # of several streams; the last is last
                return None
            tie = min((mark.tie for mark in each.values()), key=lambda tie: tie.at_ns)
            ns = {key: tie.ns_of(mark.event) for key, mark in each.items()}
            times = [ns[id(mark)] for mark in marks]
            self._note_error(tie, times)
            return times

    def read(self, tensor: Tensor) -> float:
        """On the side stream: a copy from the device waits for its own stream, and no more."""
        with torch.cuda.stream(self._side):
            return float(tensor.item())

    def accuracy_change(self) -> Accuracy | None:
        with self._lock:
            untold, self._untold = self._untold, None
            return untold

    def _on(self, stream: torch.cuda.Stream) -> Mark:
        tie = self._tie  # before the event: another thread may make a new one meanwhile
        event = torch.cuda.Event(enable_timing=True)
        event.record(stream)
        return Mark(event, tie)

    def _note_error(self, tie: Tie, times: Sequence[int]) -> None:
        """Times by this tie are worse the later they come after it. What is said holds for a while, and is said anew
        when it does not any more, or when times are twice as good."""
        age_ns = max(times) - tie.at_ns
        enough_ns = tie.error_after(max(LIFE_NS, 2 * age_ns))
        if tie.error_after(age_ns) > self._told_ns or 2 * enough_ns < self._told_ns:
            self._told_ns = enough_ns
            self._untold = Accuracy(min(times), enough_ns)

    def _tie_anew(self) -> None:
        """Now and then; unless what is known already is better, as on a device that answers late."""
        now_ns = time.monotonic_ns()
        if now_ns < self._due_ns:
            return
        self._due_ns = now_ns + TIE_EVERY_NS
        new = self._best_of(TRIES, PATIENCE_NS)
        if new is not None and new.error_ns <= self._tie.error_after(new.at_ns - self._tie.at_ns):
            self._tie = new

    def _best_of(self, tries: int, patience_ns: int) -> Tie | None:
        """The narrowest; none: the device is busy, and the first one has taken too long."""
        ties: list[Tie] = []
        while len(ties) < tries and (tie := self._try(patience_ns)):
            ties.append(tie)
        return min(ties, key=lambda tie: tie.error_ns, default=None)

    def _try(self, patience_ns: int) -> Tie | None:
        """An event of the device lies between the moment before it was recorded, and that at which it was over."""
        event = torch.cuda.Event(enable_timing=True)
        begin_ns = time.monotonic_ns()
        event.record(self._side)
        while not event.query():
            if time.monotonic_ns() - begin_ns > patience_ns:
                return None
        width_ns = time.monotonic_ns() - begin_ns
        return Tie(event, begin_ns + width_ns // 2, width_ns // 2 + RESOLUTION_NS)


def clock_of(device: torch.device) -> Clock:
    return CudaClock(device) if device.type == "cuda" else HostClock()
