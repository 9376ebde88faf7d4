"""Samples on which line of the user's code a thread is; measures how long it ran, and how long it waited for a
core.

Runs in a training's environment, so it needs only Python's standard library.

The sampler reads another thread's stack while it holds Python's lock; a Python without that lock is not sampled. A call
that keeps the lock is seen when it returns, at its own line, and stands for the samples that were due meanwhile. Their
intervals are random, since a fixed one could always meet the same part of a step.
"""

import gc
import operator
import os
import sys
import time
from _thread import allocate_lock
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import accumulate, chain, islice, repeat
from itertools import takewhile as taken_while
from operator import attrgetter, methodcaller
from random import Random
from types import CodeType
from typing import Any, NamedTuple

from .shield import identity, no_standard_stream, pass_on, suppressed

LONGEST = 128  # maximum length in bytes of the file, which has three numbers


class Scheduled(NamedTuple):
    """Times of a thread in ns; 0 if the system does not count them."""

    cpu_ns: int = 0  # running on a core
    queued_ns: int = 0  # ready to run, but without a core


class RunQueue:
    """Reads the scheduler's counters of the thread that makes this object."""

    # proc(5), /proc/PID/schedstat: ns on a core, ns in the queue, and how often it got a core. The file stays open, so
    # that a reading takes only 2 µs.
    def __init__(self) -> None:
        self._file: int | None = None
        with suppressed(OSError):  # the system is not Linux, or its kernel does not count
            file = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
            self._file = no_standard_stream(file)
            self._identity = identity(self._file)
        self._before = self._read()

    def taken(self) -> Scheduled:
        """The times since the last call."""
        before, self._before = self._before, self._read()
        return Scheduled(max(0, self._before.cpu_ns - before.cpu_ns), max(0, self._before.queued_ns - before.queued_ns))

    def close(self) -> None:
        """Close the file."""
        if self._file is not None and identity(self._file) == self._identity:  # else the training has closed it
            os.close(self._file)
        self._file = None

    def _read(self) -> Scheduled:
        if self._file is None:
            return Scheduled()
        try:
            cpu, queued, *_ = os.pread(self._file, LONGEST, 0).split()
            return Scheduled(int(cpu), int(queued))
        except (OSError, ValueError) as error:
            pass_on(error)
            return Scheduled()


PER_S = 10  # samples a second, unless the console wants more
MOST_KEPT = 1_000  # samples that were not taken: only if nobody reads them
MOST_CODES = 10_000  # codes and lines that are remembered: a training may make new ones in each step
CALLERS = 2  # frames of the user's code in a sample: the line itself, and its caller
NEAR, DEPTH = 8, 200  # frames that are searched: first the innermost, then more if these do not say enough
OBJECTS_A_FRAME = 3  # that are made when it is read, at most
LOOK_AT_COLLECTIONS = 8  # how often: each so many samples
COMPREHENSIONS = "<listcomp>", "<dictcomp>", "<setcomp>"  # functions of their own before Python 3.12
COLLECTION = "garbage collection"
PUNCTUAL_NS = 300_000  # a shorter wait for the lock is none: waking up takes 60 to 100 µs on an idle core
HELD_NS, HELD_BY_PYTHON_NS = 2_000_000, 8_000_000  # how late a sample is if a collection, or perhaps Python code, ran
NS = 1_000_000_000

Place = tuple[str, int, str, bool]  # file, line, function, and whether it is the user's own code
Frames = list[tuple[CodeType, int]]  # code and instruction, innermost first
Named = tuple[str, str, bool] | None  # file, function, own; None: neither the user's code nor that of a library
MODULE_CALL: Named = ("", "torch.nn.Module.__call__", False)  # stands for the function through which torch calls one
_call: Any = getattr(operator, "call", None)  # since Python 3.11
_code_and_instruction = attrgetter("f_code", "f_lasti")


class Sample(NamedTuple):
    """Where the thread was at a moment."""

    at_ns: int  # when it was due, unless the sampler had no core then
    ns: int  # the time for which this sample stands
    held_ns: int  # how long it waited for Python's lock meanwhile: the stack is of the end of this wait
    stack: tuple[Place, ...]  # innermost first, at most CALLERS; empty if no frame is the user's
    # The index in `stack` from which on at most CALLERS more stand, outside of all calls of modules; 0: there are none.
    outside: int = 0


class Sampler:
    """Samples one thread, until closed. Its owner runs `run` in a thread."""

    # Everything here is short: it runs with cold caches, in which each object that it touches takes a microsecond.

    def __init__(self, ident: int, name: Callable[[CodeType], Named]) -> None:
        """ident: of the thread. name: names the code of a frame."""
        self.per_s = PER_S  # any thread may set it
        self.samples: deque[Sample] = deque(maxlen=MOST_KEPT)
        self._ident, self._name = ident, name
        self._closing = allocate_lock()  # waiting for it takes half of what waiting for an Event would
        self._closing.acquire()
        self._random = Random()
        # By a code's id, since its hash takes long; the code is kept, so that no other gets that id.
        self._names: dict[int, tuple[CodeType, Named]] = {}
        self._lines: dict[tuple[int, int], int] = {}
        self._taken = self._collections = 0
        self._mean_held_ns = 0.0

    def run(self) -> None:
        """Take samples until `close`, or until the thread has ended."""
        due_ns, queue, self._collections = time.monotonic_ns(), RunQueue(), collections()
        while True:
            period_ns = NS // self.per_s
            due_ns += int(period_ns * (0.5 + self._random.random()))
            if self._closing.acquire(timeout=max(0.0, (due_ns - time.monotonic_ns()) / NS)):
                break
            if not (frames := frames_of(self._ident, NEAR)):  # it has ended
                break
            late_ns = (now_ns := time.monotonic_ns()) - due_ns
            held_ns = 0 if late_ns < PUNCTUAL_NS else max(0, late_ns - queue.taken().queued_ns)
            self._take(now_ns, held_ns, (1 + late_ns // period_ns) * period_ns, frames)
            due_ns += late_ns // period_ns * period_ns
        queue.close()

    def _take(self, now_ns: int, held_ns: int, ns: int, frames: Frames) -> None:
        """Keep a sample. held_ns: how long the sampler has waited for Python's lock, apart from waiting for a core.
        frames: the innermost."""
        stack, outside = self.stack(frames)
        if len(frames) == NEAR and (len(stack) < CALLERS or outside is not None):  # there is more to be seen
            stack, outside = self.stack(frames_of(self._ident, DEPTH))
        if self._has_collected(held_ns) and stack:
            file, line, _, own = stack[0]
            stack = [(file, line, COLLECTION, own), *stack][:CALLERS]
        held_ns = held_ns if held_ns >= PUNCTUAL_NS else 0
        self.samples.append(
            Sample(now_ns - held_ns, ns, held_ns, (*stack, *(outside or ())), len(stack) if outside else 0)
        )

    def close(self) -> None:
        """End `run` soon. Any thread may call this."""
        with suppress(RuntimeError):  # it is closed already
            self._closing.release()

    def taken(self) -> list[Sample]:
        """The samples since the last call."""
        return [self.samples.popleft() for _ in range(len(self.samples))]

    def stack(self, frames: Frames) -> tuple[list[Place], list[Place] | None]:
        """The innermost frames of the user's own code, of different functions, and those outside of all calls of
        modules; None if there are no such calls. Without own code, frames of libraries."""
        own: Frames = []
        others: Frames = []
        outside: Frames | None = None
        last: CodeType | None = None
        for frame in frames:
            named = self._named(code := frame[0])
            if named is None or code is last:
                continue
            if named is MODULE_CALL:
                outside = []
                continue
            last = code
            (own if named[2] else others).append(frame)
            if outside is not None and named[2]:
                outside.append(frame)
        found, beyond = (own, outside) if own else (others, None)
        places = [self._place(*frame) for frame in found[:CALLERS]]
        return places, None if beyond is None else [self._place(*frame) for frame in beyond[:CALLERS]]

    def _named(self, code: CodeType) -> Named:
        known = self._names.get(id(code))
        if known is None:
            if len(self._names) > MOST_CODES:
                self._names.clear()
                self._lines.clear()
            named = self._name(code)
            if named is not None and named[1].endswith(COMPREHENSIONS):
                named = None
            known = self._names[id(code)] = code, named
        return known[1]

    def _place(self, code: CodeType, instruction: int) -> Place:
        named, key = self._named(code) or ("", "", False), (id(code), instruction)
        if key not in self._lines:
            self._lines[key] = line_of(code, instruction)
        return named[0], self._lines[key], named[1], named[2]

    def _has_collected(self, held_ns: int) -> bool:
        """Whether the sample is late because Python collected garbage meanwhile. We do not use `gc.callbacks`: they
        would swallow a signal handler's exception, such as Ctrl-C."""
        self._taken += 1
        if held_ns < PUNCTUAL_NS and self._taken % LOOK_AT_COLLECTIONS:
            return False
        before, self._collections = self._collections, collections()
        limit_ns = HELD_NS if self._mean_held_ns < HELD_NS / 2 else HELD_BY_PYTHON_NS
        if self._collections > before:
            return held_ns > limit_ns
        self._mean_held_ns += (min(held_ns, HELD_BY_PYTHON_NS) - self._mean_held_ns) / 10
        return False


def frames_of(ident: int, depth: int = DEPTH) -> Frames:
    """The innermost frames of a thread; none if it has ended."""
    # All of this happens in C, in one step: Python's lock is not given up meanwhile. Otherwise the thread might return
    # from a function, and we would keep its variables alive, and free them in this thread.
    frame = islice(map(methodcaller("get", ident), iter(sys._current_frames, None)), 1)
    frames = taken_while(bool, accumulate(chain(frame, repeat("f_back", depth - 1)), getattr))
    read = map(_code_and_instruction, frames)
    # Python 3.11 makes objects of frames here, which may start a garbage collection, and that may run Python code: then
    # the thread goes on, and the frames that we read are gone. So none may start.
    if sys.version_info[:2] != (3, 11) or gc.get_count()[0] + OBJECTS_A_FRAME * depth < gc.get_threshold()[0]:
        return [*read]
    found: Frames = []
    by_enabled: Any = {
        True: (gc.disable, partial(found.extend, read), gc.enable),
        False: (partial(found.extend, read),),
    }
    steps = chain.from_iterable(map(by_enabled.__getitem__, map(_call, (gc.isenabled,))))
    deque(map(_call, steps), 0)
    return found


def collections() -> int:
    """How often Python has collected garbage, without the short collections of the youngest objects."""
    return sum(generation["collections"] for generation in gc.get_stats()[1:])


def line_of(code: CodeType, instruction: int) -> int:
    """The line of an instruction of this code."""
    lines = (line for begin, end, line in code.co_lines() if begin <= instruction < end)
    return next(lines, None) or code.co_firstlineno
