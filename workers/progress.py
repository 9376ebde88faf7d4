"""What a rank tells of its training: that it is ready, every step once the device has made it, and that it is done."""

import math
import time
from collections import deque
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any, NamedTuple

from torch import Tensor

from ddptui.wire import PHASES, Collective, Done, Fingerprint, Ready, Slept, Step, Trained
from workers.clock import Clock
from workers.rank import Rank
from workers.reporter import Reporter

LOG_EVERY = 20  # steps


class Laps:
    """When the phases of one step ended, in the order in which they did."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.phases: list[str] = []
        self.moments = [clock.now()]

    def end(self, phase: str) -> None:
        self.phases.append(phase)
        self.moments.append(self._clock.now())


@dataclass(slots=True)
class Call:
    """One call of a collective, its moments as the clock has them: see wire.Collective."""

    kind: str
    number: int
    size: int  # bytes
    root: int | None
    group: tuple[int, ...]
    lap: int  # how many phases of the step were over
    called: Any
    enter: Any
    background: bool = False  # the rank goes on meanwhile
    issued: Any = None
    thread: int = 0
    awaited: Any = None
    told: Any = None  # when torch said that it was over, if it was asked; perhaps late
    over: Any = None  # when it was over at the latest
    bucket: int | None = None

    def moments(self) -> list[Any]:
        return [self.called, self.enter, self.awaited, self.told or self.over, self.over]


class Mark(NamedTuple):
    """A step as the loop leaves it, its loss where the device has it."""

    step: int
    epoch: int
    laps: Laps
    samples: int
    loss: Tensor
    calls: list[Call]
    slept: tuple[Slept, ...]

    def moments(self) -> list[Any]:
        return [*self.laps.moments, *(moment for call in self.calls for moment in call.moments())]


class Progress:
    """The progress of one rank."""

    def __init__(self, rank: int, warmup_steps: int, reporter: Reporter) -> None:
        self.rank = rank
        self._warmup_steps = warmup_steps
        self._reporter = reporter
        self._pending: deque[Mark] = deque()

    def ready(self, steps: int, parameters: int, start_ns: int) -> None:
        now = time.monotonic_ns()
        self._reporter.say(Ready(rank=self.rank, at_ns=now, steps=steps, parameters=parameters, start_ns=start_ns))

    def step(self, mark: Mark, clock: Clock) -> None:
        self._pending.append(mark)
        self._say_what_is_over(clock)

    def finish(self, clock: Clock) -> None:
        """Wait for the device, once, after the last step."""
        while self._pending:
            self._say_what_is_over(clock)

    def fingerprint(self, fingerprint: Fingerprint) -> None:
        self._reporter.say(fingerprint)

    def done(self, done: Done) -> None:
        self._reporter.say(done)

    def _say_what_is_over(self, clock: Clock) -> None:
        while self._pending and (times := clock.resolve(self._pending[0].moments())):
            mark = self._pending.popleft()
            step = self._message(mark, times)
            self.say_step(step)
            if mark.step % LOG_EVERY == 0:
                loss = mark.loss.item()
                line = f"rank {self.rank}  epoch {mark.epoch}  step {mark.step}  loss {loss:.4f}\n"
                print(line, end="", flush=True)  # in one piece: without a console, all ranks write to one terminal

    def say_step(self, step: Step) -> None:
        self._reporter.say(step)

    def _message(self, mark: Mark, times: list[int]) -> Step:
        loss = mark.loss.item()
        phases = mark.laps.phases
        laps, rest = times[: len(phases) + 1], iter(times[len(phases) + 1 :])
        lengths = {phase: end - begin for phase, (begin, end) in zip(phases, pairwise(laps), strict=True)}
        data, forward, backward, aggregate, optimizer = (lengths.get(phase, 0) for phase in PHASES)
        return Step(
            rank=self.rank,
            step=mark.step,
            epoch=mark.epoch,
            warmup=mark.step < self._warmup_steps,
            begin_ns=laps[0],
            end_ns=laps[-1],
            phases_ns=(data, forward, backward, aggregate, optimizer),
            samples=mark.samples,
            loss=loss if math.isfinite(loss) else None,
            order=tuple(PHASES.index(phase) for phase in phases),
            collectives=tuple(collective(call, *islice(rest, 5)) for call in mark.calls),
            slept=mark.slept,
        )


class Quiet(Progress):
    """Without instruments: when the steps began, and when they were over; nothing in between."""

    def __init__(self, rank: int, warmup_steps: int, reporter: Reporter) -> None:
        super().__init__(rank, warmup_steps, reporter)
        self._first: Any = None  # moments
        self._begin: Any = None  # of the first step after the warm-up
        self._last: Mark | None = None
        self._samples = 0

    def step(self, mark: Mark, clock: Clock) -> None:
        if mark.step == 0:
            self._first = mark.laps.moments[0]
        if mark.step == self._warmup_steps:
            self._begin = mark.laps.moments[0]
        if mark.step >= self._warmup_steps:
            self._samples += mark.samples
        self._last = mark

    def finish(self, clock: Clock) -> None:
        last = self._last
        assert last is not None, "a trial has steps after its warm-up"
        while (times := clock.resolve([self._first, self._begin, last.laps.moments[-1]])) is None:
            pass
        loss = last.loss.item()
        self._reporter.say(
            Trained(
                rank=self.rank,
                first_ns=times[0],
                begin_ns=times[1],
                end_ns=times[2],
                steps=last.step + 1 - self._warmup_steps,
                samples=self._samples,
                loss=loss if math.isfinite(loss) else None,
            )
        )


def progress_of(me: Rank) -> Progress:
    kind = Progress if me.trial.instruments == "on" else Quiet
    return kind(me.rank, me.trial.warmup_steps, me.reporter)


def collective(call: Call, called_ns: int, enter_ns: int, awaited_ns: int, told_ns: int, over_ns: int) -> Collective:
    return Collective(
        kind=call.kind,
        seq=call.number,
        bytes=call.size,
        called_ns=called_ns,
        enter_ns=enter_ns,
        awaited_ns=max(awaited_ns, enter_ns),  # torch's own threads may call it when the rank waits already
        exit_ns=min(told_ns, over_ns),
        root=call.root,
        group=call.group,
        bucket=call.bucket,
    )
