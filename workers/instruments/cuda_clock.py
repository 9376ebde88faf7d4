"""The clock by which a rank's work on a GPU is timed: when a stream reaches a mark.

The training loop never waits for the GPU. A mark is a CUDA event on the caller's stream. The reporter's thread reads it
later, as its distance from a tie: an event whose host time is known. New ties are made regularly, and the time of a
mark is interpolated between the ties before and after it. So the drift between the two oscillators does not matter (an
H100's ran 11 to 22 ppm slow). A mark that is read before the next tie exists is extrapolated, at the pace measured by
earlier ties.

While a thread captures a CUDA graph, its marks are UNKNOWN: the device does not execute what is captured.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count, pairwise
from threading import Lock, RLock
from typing import NamedTuple
from weakref import ref

import torch
from torch import Tensor

from ddptui.text.words import DRIFT_PPM

from .clock import UNKNOWN, Accuracy, Clock
from .page_locked import OnItsWay, PageLockedNumbers, captures_go_on
from .shield import pass_on

TIE_EVERY_NS = 200_000_000  # as often as the reporter sends
AGAIN_NS = 10_000_000  # delay after a failed attempt, e.g. on a GPU that two processes share
TRIES = 3  # attempts per tie
FIRST_TRIES = 10  # attempts for the first tie, when there is time for more
PATIENCE_NS = 10_000_000  # timeout of an attempt: two processes that share a GPU get 2 ms each in turn
FIRST_PATIENCE_NS = 10_000_000_000
SPIN_NS = 200_000  # an attempt that takes longer sleeps between queries, to leave Python's lock to the loop
NAP_S = 20e-6
RESOLUTION_NS = 1_000  # CUDA's resolution is half of it; a float32 of some seconds in ms has about as much
BASELINE_NS = 10_000_000_000  # minimum time over which the pace is measured, once that much has passed
WOBBLE_PPM = 5  # how much the pace may vary within two baselines
MARGIN = 2  # the reported error is this many times the actual one, so that small changes need no new report
PPM = 1e-6
MOST_KEPT = 1_000  # numbers of one type that may be in transit
MOST_MARKS = 100_000  # marks alive at a time: an event takes memory of the driver


class Pace(NamedTuple):
    """The measured length of one device nanosecond in host nanoseconds, and its maximum error in ppm."""

    ns: float = 1.0
    ppm: float = DRIFT_PPM


UNMEASURED = Pace()


@dataclass(slots=True, eq=False)
class Tie:
    """An event whose host time is known within error_ns; converts later device times to host times."""

    event: torch.cuda.Event
    at_ns: int
    error_ns: int
    pace: Pace = UNMEASURED  # for extrapolating times that are read before the next tie exists
    told_ns: int = 0  # the latest extrapolated time so far, in device ns since this tie
    next: "Tie | None" = None
    span_ns: int = 0  # device ns from this tie to the next

    def extrapolated(self, device_ns: int) -> tuple[int, float]:
        """The host time `device_ns` after this tie, and its error, both in ns, extrapolated."""
        return self.at_ns + round(device_ns * self.pace.ns), self.error_ns + device_ns * self.pace.ppm * PPM

    def time_of(self, device_ns: int) -> tuple[int, float]:
        """The host time `device_ns` after this tie, and its error, both in ns. A moment always gets the same time, and
        a later moment a later time, whether it is read before or after the next tie is made."""
        tie = self
        while tie.next is not None and device_ns >= tie.span_ns:
            device_ns -= tie.span_ns
            tie = tie.next
        if tie.next is None:
            tie.told_ns = max(tie.told_ns, device_ns)
        if device_ns <= tie.told_ns or tie.next is None:
            return tie.extrapolated(device_ns)
        begin_ns, begin_error_ns = tie.extrapolated(tie.told_ns)
        done_ns, left_ns = device_ns - tie.told_ns, tie.span_ns - device_ns
        part = done_ns / (done_ns + left_ns)
        error_ns = max(begin_error_ns, tie.next.error_ns) + min(done_ns, left_ns) * WOBBLE_PPM * PPM
        return begin_ns + round(part * (tie.next.at_ns - begin_ns)), error_ns


class Mark:
    """An event on a stream, with a number that gives the order of recording, and the tie that was current then. When
    the last reference to a mark is gone, its event is reused: making an event takes longer than recording it."""

    __slots__ = ("__weakref__", "_freed", "event", "number", "stream", "tie")

    def __init__(
        self, event: torch.cuda.Event, stream: torch.cuda.Stream, number: int, tie: Tie, free: "list[Freed]"
    ) -> None:
        self.event, self.stream, self.number, self.tie = event, stream, number, tie
        self._freed = Freed(self, free.append)
        self._freed.event = event


class Freed(ref[Mark]):
    """A mark's event, which is appended to the free list when the mark is gone. Unlike `__del__`, this runs no Python
    code, in which Python would drop exceptions of a signal handler."""

    __slots__ = ("event",)
    event: torch.cuda.Event


class CudaClock(Clock):
    """The clock of a GPU, where a call returns before its work is done."""

    def __init__(self, device: torch.device) -> None:
        """Raises RuntimeError if the GPU does not answer."""
        self.device: torch.device = device
        # torch hands out streams from pools, one per priority, and reuses them cyclically. Callbacks of futures get
        # ordinary streams, and wait for collectives there; gloo gets streams of the highest priority. This priority
        # lies between. FSDP also takes streams of it; so does gloo on a GPU with only two priorities. If one of them
        # takes this very stream, a tie may fail (the previous tie stays), and a value may be late by the work queued
        # there.
        self._side = torch.cuda.Stream(device, priority=-1)
        self._ends: torch.cuda.Stream | None = None
        self._streams: dict[int, torch.cuda.Stream] = {}  # by CUDA's pointer, since torch.cuda.current_stream is slow
        self._home = self._current()
        self._kept: dict[torch.dtype, PageLockedNumbers] = {}
        self._free: list[Freed] = []
        self._made = 0  # events made so far
        self._numbers = count()
        self._last_ns: dict[int, int] = {}  # by stream id: the latest time so far
        # Several threads may record on one stream, in the order of their marks' numbers. A signal handler of the
        # training may mark while this thread records, so the lock is reentrant.
        self._order = RLock()
        self._lock = Lock()  # replicas of one process, each with its own reporter, may share a clock
        self._reported_ns = 0.0  # the last reported error
        self._unreported: Accuracy | None = None
        with captures_go_on():
            first = self._best_of(FIRST_TRIES, FIRST_PATIENCE_NS)
        if first is None:
            seconds = FIRST_PATIENCE_NS // 10**9
            raise RuntimeError(f"{device} did not answer within {seconds} s: see with nvidia-smi which process uses it")
        self._tie = self._anchor = self._next_anchor = first
        self._due_ns = first.at_ns + TIE_EVERY_NS

    def now(self) -> Mark | int:
        return UNKNOWN if self.is_capturing() else self._on(self._current())

    def at_home(self) -> Mark | int:
        return UNKNOWN if self.is_capturing() else self._on(self._home)

    def come_home(self) -> Mark | int:
        if self.is_capturing():
            return UNKNOWN
        self._home = self._current()
        return self._on(self._home)

    def at_once(self) -> int:
        return time.monotonic_ns()

    def after(self, wait: Callable[[], object]) -> Mark:
        ends = self._ends = self._ends or torch.cuda.Stream(self.device)
        with torch.cuda.stream(ends):
            wait()
        return self._on(ends)

    def is_home(self, stream: torch.cuda.Stream | None = None) -> bool:
        return (stream or self._current()) == self._home

    def is_capturing(self) -> bool:
        # CUDA does not capture its default stream, whose pointer is 0.
        return bool(self._pointer()) and torch._C._cuda_isCurrentStreamCapturing()

    def is_full(self) -> bool:
        return self._made - len(self._free) > MOST_MARKS

    def reached(self, mark: Mark | int) -> bool:
        if isinstance(mark, int):
            return True
        try:
            return bool(mark.event.query())
        except RuntimeError as error:  # the device has failed, which the loop will notice; or the event is invalid
            pass_on(error)
            return True

    def resolve(self, marks: Sequence[Mark | int]) -> list[int] | None:
        # A call may contain the same mark several times. Query the driver once per mark, since this thread holds
        # Python's lock meanwhile, for which the loop may wait.
        unique = {id(mark): mark for mark in marks if isinstance(mark, Mark)}
        with self._lock:
            self._tie_anew()
            if not all_reached(list(unique.values())):
                return None
            in_order = sorted(unique.values(), key=lambda mark: mark.number)
            times = {id(mark): self._time_of(mark) for mark in in_order}
            if times:
                self._note_error(min(ns for ns, _ in times.values()), max(error_ns for _, error_ns in times.values()))
            return [mark if isinstance(mark, int) else times[id(mark)][0] for mark in marks]

    def _time_of(self, mark: Mark) -> tuple[int, float]:
        """The host time of a mark, and its error, both in ns. It is measured from the mark's own tie: from an older
        tie, float32 rounding and the errors of the ties between would add up."""
        ns, error_ns = mark.tie.time_of(device_ns(mark.tie.event, mark.event))
        last_ns = self._last_ns.get(id(mark.stream), 0)
        if 0 < last_ns - ns < 2 * RESOLUTION_NS:  # rounding, or a mark that is read out of order
            ns = last_ns
        self._last_ns[id(mark.stream)] = max(ns, last_ns)
        return ns, error_ns

    def lengths(self, marks: Sequence[Mark]) -> list[int] | None:
        if not all_reached(marks):
            return None
        return [device_ns(earlier.event, later.event) for earlier, later in pairwise(marks)]

    def keep(self, tensor: Tensor) -> OnItsWay | None:
        # Copy at this point of the stream: replaying a graph would overwrite the tensor.
        if self.is_capturing():
            return None
        if tensor.dtype not in self._kept:
            self._kept[tensor.dtype] = PageLockedNumbers(tensor.dtype, MOST_KEPT)
        return self._kept[tensor.dtype].copy(tensor)

    def read(self, number: "OnItsWay | Tensor | float") -> float:
        if isinstance(number, float):
            return number
        if isinstance(number, OnItsWay):
            return float(number.read()[0])
        with torch.cuda.stream(self._side):  # a copy from the device waits only for its own stream
            return float(number.item())

    def accuracy_change(self) -> Accuracy | None:
        with self._lock:
            unreported, self._unreported = self._unreported, None
            return unreported

    def _pointer(self) -> int:
        """CUDA's pointer to this thread's current stream on this device."""
        pointer: int = torch._C._cuda_getCurrentRawStream(self.device.index)
        return pointer

    def _current(self) -> torch.cuda.Stream:
        pointer = self._pointer()
        stream = self._streams.get(pointer)
        if stream is None:
            stream = self._streams[pointer] = torch.cuda.current_stream(self.device)
        return stream

    def _on(self, stream: torch.cuda.Stream) -> Mark:
        tie = self._tie  # before the event, since another thread may make a new tie meanwhile
        try:
            event = self._free.pop().event
        except IndexError as error:
            pass_on(error)
            event = torch.cuda.Event(enable_timing=True)
            self._made += 1
        with self._order:
            event.record(stream)
            number = next(self._numbers)
        return Mark(event, stream, number, tie, self._free)

    def _note_error(self, from_ns: int, error_ns: float) -> None:
        """Note a new accuracy to report, if times are less accurate than last reported, or far more accurate."""
        enough_ns = MARGIN * error_ns
        if error_ns > self._reported_ns or 4 * enough_ns < self._reported_ns:
            self._reported_ns = enough_ns
            self._unreported = Accuracy(from_ns, round(enough_ns))

    def _tie_anew(self) -> None:
        """Make a new tie if one is due. Keeps the old one if that is more accurate, as when the device answers late."""
        now_ns = time.monotonic_ns()
        if now_ns < self._due_ns:
            return
        new = self._best_of(TRIES, PATIENCE_NS)
        self._due_ns = now_ns + (TIE_EVERY_NS if new else AGAIN_NS)
        if new is None:
            return
        last = self._tie
        span_ns = device_ns(last.event, new.event)
        told_ns, _ = last.extrapolated(last.told_ns)
        expected_ns, error_ns = last.extrapolated(span_ns)
        if new.error_ns > error_ns or new.at_ns <= told_ns:
            return
        is_off = abs(new.at_ns - expected_ns) > new.error_ns + error_ns
        if is_off and last.pace is not UNMEASURED:  # the pace of a clock has changed
            self._anchor = self._next_anchor = new
        new.pace = self._pace_until(new)
        last.span_ns, last.next = span_ns, new  # link first: other threads take marks with self._tie
        self._tie = new

    def _pace_until(self, new: Tie) -> Pace:
        """The pace measured from the anchor, an earlier tie, to the new tie."""
        if new.at_ns - self._next_anchor.at_ns > BASELINE_NS:
            self._anchor, self._next_anchor = self._next_anchor, new
        host_ns = new.at_ns - self._anchor.at_ns
        ppm = WOBBLE_PPM + (self._anchor.error_ns + new.error_ns) / max(1, host_ns) / PPM
        if ppm >= DRIFT_PPM:
            return UNMEASURED
        return Pace(host_ns / device_ns(self._anchor.event, new.event), ppm)

    def _best_of(self, tries: int, patience_ns: int) -> Tie | None:
        """The most accurate tie of several attempts; None if the first attempt times out, since the device is busy."""
        ties: list[Tie] = []
        while len(ties) < tries and (tie := self._try(patience_ns)):
            ties.append(tie)
        return min(ties, key=lambda tie: tie.error_ns, default=None)

    def _try(self, patience_ns: int) -> Tie | None:
        """Make one tie: the device reached the event between the last query that denied it and the next one. None if
        that takes longer than `patience_ns`."""
        event = torch.cuda.Event(enable_timing=True)
        begin_ns = last_ns = look_ns = time.monotonic_ns()
        event.record(self._side)
        while not event.query():
            last_ns = look_ns
            if look_ns - begin_ns > patience_ns:
                return None
            if look_ns - begin_ns > SPIN_NS:
                time.sleep(NAP_S)
            look_ns = time.monotonic_ns()
        width_ns = time.monotonic_ns() - last_ns
        return Tie(event, last_ns + width_ns // 2, width_ns // 2 + RESOLUTION_NS)


def device_ns(earlier: torch.cuda.Event, later: torch.cuda.Event) -> int:
    """The time between two events that the device has reached, in ns of the device's clock."""
    ms: float = earlier.elapsed_time(later)
    return round(ms * 1e6)


def all_reached(marks: Sequence[Mark]) -> bool:
    """Whether the device has reached all marks. Raises RuntimeError if it has failed."""
    # Query only the last mark of each stream, since a stream reaches its marks in order.
    last: dict[int, Mark] = {}
    for mark in reversed(marks):
        if mark.number > last.setdefault(id(mark.stream), mark).number:
            last[id(mark.stream)] = mark
    return all(mark.event.query() for mark in last.values())


def clock_of(device: torch.device) -> Clock:
    """The clock of a device. Raises RuntimeError if a GPU does not answer."""
    return CudaClock(device) if device.type == "cuda" else Clock()
