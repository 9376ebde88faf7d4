"""Reports a rank's training: that it is ready, each step once its device has finished it, and the end."""

import math
import threading
import time
import zlib
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import count
from types import CodeType
from typing import TYPE_CHECKING, Any, cast

from ddptui.wire.limits import MOST_A_STEP
from ddptui.wire.messages import (
    Collective,
    Done,
    Fingerprint,
    Line,
    Place,
    RankMessage,
    Ready,
    Sampled,
    Slept,
    Stack,
    Step,
    Stood,
    Tied,
    Trained,
)
from ddptui.wire.phases import BETWEEN, PARTS, PHASES
from ddptui.wire.records import Look

from .clock import Clock
from .output import print_line
from .records import POINT_TO_POINT, Call, StepRecord, carries_gradients
from .reporter import Reporter
from .sampler import Named, RunQueue, Sampler, Scheduled, frames_of

if TYPE_CHECKING:
    from torch import Tensor

LOG_EVERY = 20  # steps between two lines in the log
MOST_SAMPLES = 10_000  # that wait for their step: only if no step is reported
PLACES = {part: place for place, part in enumerate(PARTS)}
PLAIN_ORDER = (0, 1, 2, 3, 4)
UNKNOWN = Scheduled()


class Progress:
    """Reports every step of one rank."""

    def __init__(self, rank: int, warmup_steps: int, reporter: Reporter) -> None:
        self.rank = rank
        self.warmup_steps = warmup_steps
        self._reporter = reporter
        self._queue: RunQueue | None = None
        self._sampler: Sampler | None = None
        self._sampled: deque[Sampled] = deque(maxlen=MOST_SAMPLES)  # that belong to no step yet
        self._lines: set[int] = set()  # numbers that the console knows

    def sample_lines(self, name: Callable[[CodeType], Named], *, tells_stack: bool = False) -> None:
        """Sample the lines of the calling thread from now on, in a thread. name: names the code of a frame.
        tells_stack: each heartbeat says where the thread is."""
        sampler = Sampler(ident := threading.get_ident(), name)

        def stack() -> Stack:
            return as_stack(sampler.stack(frames_of(ident))[0])

        def look(look: Look) -> None:
            sampler.per_s = look.per_s
            if look.asked:
                at_ns = time.monotonic_ns()
                self._reporter.send(Stood(rank=self.rank, at_ns=at_ns, asked=look.asked, stack=stack()))

        if tells_stack:
            self._reporter.stack = stack

        self._sampler, self._reporter.look = sampler, look
        threading.Thread(target=sampler.run, name="sampler", daemon=True).start()

    def ready(self, ready: Ready) -> None:
        """Report that the loop is about to begin. The loop's thread must call this."""
        self._queue = RunQueue()  # measures the thread that makes it
        self._reporter.send(ready)

    def step(self, record: StepRecord, clock: Clock) -> None:
        """Report a step that the loop has finished; its device may be behind."""
        # The reporter's thread makes the messages: in time that the loop leaves unused, and three times as fast, since
        # it processes many steps at once.
        self._reporter.send(partial(self.messages, record, clock, self.scheduled()))

    def scheduled(self) -> Scheduled:
        """The loop thread's time on a core, and waiting for a core, since the last call."""
        return self._queue.taken() if self._queue else UNKNOWN

    def fingerprint(self, fingerprint: Fingerprint) -> None:
        """Report the model's hashes after a step."""
        self._reporter.send(fingerprint)

    def done(self, done: Done) -> None:
        """Report the result of the evaluation at the end of the training."""
        if self._queue:
            self._queue.close()
        if self._sampler is not None:
            self._sampler.close()
        self._reporter.send(done)

    def messages(
        self, record: StepRecord, clock: Clock, scheduled: Scheduled = UNKNOWN
    ) -> Sequence[RankMessage] | None:
        """The messages about a step; None while the device has not finished it."""
        times = clock.resolve(record.moments())
        if times is None:
            return None
        loss = read_loss(record.loss, clock)
        self.log(record, loss)
        return [*clock_accuracy(self.rank, clock), self.step_message(record, times, loss, scheduled)]

    def log(self, record: StepRecord, loss: float) -> None:
        """Print a line about every LOG_EVERY-th step."""
        if record.step % LOG_EVERY == 0:
            print_line(f"rank {self.rank}  epoch {record.epoch}  step {record.step}  loss {loss:.4f}")

    def step_message(
        self, record: StepRecord, times: Sequence[int], loss: float, scheduled: Scheduled = UNKNOWN
    ) -> Step:
        """The message about a step. times: the record's moments, in ns. scheduled: unknown for replicas, which share
        threads."""
        phases = record.timer.phases
        of_calls, of_phases = times[: -len(phases) - 1], times[-len(phases) - 1 :]  # one more: the step's begin
        pieces = pieces_of(phases, of_phases)
        lengths = [0] * len(PARTS)
        for place, ns in pieces:
            lengths[place] += ns
        order = tuple(place for place, _ in pieces)
        is_plain = len(pieces) <= len(PHASES) and len(set(order)) == len(order) and PLACES[BETWEEN] not in order
        return Step(
            rank=self.rank,
            step=record.step,
            epoch=record.epoch,
            warmup=record.step < self.warmup_steps,
            begin_ns=of_phases[0],
            end_ns=of_phases[-1],
            phases_ns=(lengths[0], lengths[1], lengths[2], lengths[3], lengths[4]),
            samples=record.samples,
            loss=loss if math.isfinite(loss) else None,
            order=order if is_plain else PLAIN_ORDER,
            pieces=() if is_plain else pieces,
            collectives=collective_messages(record.calls, of_calls, buckets=record.buckets, line=self._line),
            slept=tuple(Slept(*delay) for delay in record.slept),
            queued_ns=scheduled.queued_ns,
            cpu_ns=scheduled.cpu_ns,
            has_loss=not isinstance(record.loss, list) or bool(record.loss),
            lines=self._lines_until(of_phases[-1]),
        )

    def _lines_until(self, end_ns: int) -> tuple[Sampled, ...]:
        """The samples up to this moment that no step has yet."""
        for at_ns, ns, held_ns, places, outside in self._sampler.taken() if self._sampler is not None else ():
            self.add_sample(at_ns, ns, held_ns, as_stack(places), outside)
        lines = []
        while self._sampled and self._sampled[0].at_ns <= end_ns:
            lines.append(self._sampled.popleft())
        return tuple(lines[:MOST_A_STEP])

    def add_sample(self, at_ns: int, ns: int, held_ns: int, stack: Stack, outside: int) -> None:
        """Take a sample of the training's thread (sampler.py), before its step."""
        if stack:
            self._sampled.append(Sampled(at_ns, ns, self._line(stack, outside), held_ns))

    def _line(self, stack: Stack, outside: int = 0) -> int:
        """The number of a line, which the console learns."""
        number = zlib.crc32(repr((stack, outside)).encode())
        if number not in self._lines:
            self._lines.add(number)
            self._reporter.send(Line(rank=self.rank, number=number, stack=stack, outside=outside))
        return number


class SummaryProgress(Progress):
    """Reports a training without instruments: one message after the last step."""

    def __init__(self, rank: int, warmup_steps: int, reporter: Reporter) -> None:
        super().__init__(rank, warmup_steps, reporter)
        self._steps = 0
        self._samples = 0
        self._begins: list[Any] = []  # begin of the first step, and of the first step after the warm-up

    def ready(self, ready: Ready) -> None:
        super().ready(ready)
        assert ready.steps is not None
        self._steps = ready.steps

    def step(self, record: StepRecord, clock: Clock) -> None:
        self._begins += [record.timer.moments[0] for first in (0, self.warmup_steps) if record.step == first]
        if record.step >= self.warmup_steps:
            self._samples += record.samples
        if record.step == self._steps - 1:
            self._reporter.send(partial(self._summary, record, clock))

    def _summary(self, last: StepRecord, clock: Clock) -> Sequence[RankMessage] | None:
        times = clock.resolve([*self._begins, last.timer.moments[-1]])
        if times is None:
            return None
        first_ns, begin_ns, end_ns = times
        loss = read_loss(last.loss, clock)
        trained = Trained(
            rank=self.rank,
            first_ns=first_ns,
            begin_ns=begin_ns,
            end_ns=end_ns,
            steps=self._steps - self.warmup_steps,
            samples=self._samples,
            loss=loss if math.isfinite(loss) else None,
        )
        return [trained]


def collective_messages(
    calls: Sequence[Call],
    times: Sequence[int],
    *,
    buckets: bool,
    line: Callable[[Stack], int | None] = lambda _: None,
) -> tuple[Collective, ...]:
    """The messages about a step's collectives, in order. times: the calls' moments in ns, five per call. line: numbers
    the lines that called them."""
    messages = []
    numbers: defaultdict[tuple[int, ...], Iterator[int]] = defaultdict(count)  # by group
    bucket = 0
    by_call = zip(*[iter(times)] * 5, strict=True)  # the same iterator five times: groups of five
    for call, (called_ns, enter_ns, awaited_ns, notified_ns, ended_ns) in zip(calls, by_call, strict=True):
        messages.append(
            Collective(
                kind=call.kind,
                # Of calls between two ranks, numbers would differ between ranks.
                seq=0 if call.kind in POINT_TO_POINT else next(numbers[call.group]),
                bytes=call.size,
                called_ns=called_ns,
                enter_ns=enter_ns,
                awaited_ns=max(awaited_ns, enter_ns),  # a torch thread may call it after the rank began to wait
                exit_ns=min(notified_ns, ended_ns),
                root=call.root,
                group=call.group,
                bucket=bucket if buckets and carries_gradients(call) else None,
                line=line(call.line) if call.line else None,
            )
        )
        bucket += carries_gradients(call)
    return tuple(messages)


def pieces_of(phases: Sequence[str], times: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """The phases of a step as (index in PARTS, ns), for Step.pieces; adjacent pieces of the same phase are merged.
    times: the step's begin, then the end of each phase, in ns."""
    pieces: list[tuple[int, int]] = []
    begin, last = times[0], -1
    for phase, end in zip(phases, times[1:], strict=True):
        place = PLACES[phase]
        if place == last:
            pieces[-1] = (place, pieces[-1][1] + end - begin)
        else:
            pieces.append((place, end - begin))
        begin, last = end, place
    return tuple(pieces)


def read_loss(loss: "Tensor | Sequence[Tensor | float]", clock: Clock) -> float:
    """Read a step's loss from the device. Returns the sum of several losses, since their gradients add up; NaN if there
    are none."""
    several: Sequence[Tensor | float] = loss if isinstance(loss, list | tuple) else [cast("Tensor", loss)]
    losses = [clock.read(one) for one in several]
    return sum(losses) if losses else math.nan


def clock_accuracy(rank: int, clock: Clock) -> list[Tied]:
    """A message about the accuracy of the rank's clock, if it has changed. Send it before the step to which it
    applies."""
    accuracy = clock.accuracy_change()
    return [Tied(rank=rank, at_ns=accuracy.from_ns, error_ns=accuracy.error_ns)] if accuracy else []


def as_stack(places: Iterable[Sequence[Any]]) -> Stack:
    """The places of a sample as the console knows them."""
    return tuple(Place(*place) for place in places)
