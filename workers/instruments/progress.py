"""What a rank tells of its training: that it is ready, every step once the device has made it, and that it is done."""

import math
import time
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

from torch import Tensor

from ddptui.wire.messages import PHASES, Done, Fingerprint, RankMessage, Ready, Slept, Step, Tied, Trained
from workers.instruments.calls import Call, collectives
from workers.instruments.clock import Clock
from workers.rank.process import Rank
from workers.rank.reporter import Reporter

LOG_EVERY = 20  # steps


class Laps:
    """When the phases of one step ended, in the order in which they did."""

    def __init__(self, clock: Clock, step: int = 0) -> None:
        self._clock = clock
        self.step = step
        self.phases: list[str] = []
        self.moments = [clock.now()]

    def end(self, phase: str) -> None:
        self.phases.append(phase)
        self.moments.append(self._clock.now())


class Mark(NamedTuple):
    """A step as the loop leaves it, its loss where the device has it. buckets: whether calls carry such."""

    step: int
    epoch: int
    laps: Laps
    samples: int
    loss: Tensor
    calls: list[Call]
    buckets: bool
    slept: tuple[Slept, ...]

    def moments(self) -> list[Any]:
        """All that it has, the last one last."""
        return [*(moment for call in self.calls for moment in call.moments()), *self.laps.moments]


class Progress:
    """The progress of one rank. What there is to tell of a step is worked out in the reporter's thread: there it takes
    the time that the loop has left, and a third of it, since it is done for many steps at once."""

    def __init__(self, rank: int, warmup_steps: int, reporter: Reporter) -> None:
        self.rank = rank
        self._warmup_steps = warmup_steps
        self._reporter = reporter

    def ready(self, steps: int, parameters: int, start_ns: int) -> None:
        now = time.monotonic_ns()
        self._reporter.say(Ready(rank=self.rank, at_ns=now, steps=steps, parameters=parameters, start_ns=start_ns))

    def step(self, mark: Mark, clock: Clock) -> None:
        self._reporter.say(partial(self.told, mark, clock))

    def fingerprint(self, fingerprint: Fingerprint) -> None:
        self._reporter.say(fingerprint)

    def done(self, done: Done) -> None:
        self._reporter.say(done)

    def told(self, mark: Mark, clock: Clock) -> Sequence[RankMessage] | None:
        """What there is to tell of a step; None while the device has not made it."""
        times = clock.resolve(mark.moments())
        if times is None:
            return None
        loss = clock.read(mark.loss)
        self.log(mark, loss)
        return [*ties(self.rank, clock), self.message(mark, times, loss)]

    def log(self, mark: Mark, loss: float) -> None:
        if mark.step % LOG_EVERY == 0:
            line = f"rank {self.rank}  epoch {mark.epoch}  step {mark.step}  loss {loss:.4f}\n"
            print(line, end="", flush=True)  # in one piece: without a console, all ranks write to one terminal

    def message(self, mark: Mark, times: Sequence[int], loss: float) -> Step:
        """times: the mark's moments, in ns."""
        phases = mark.laps.phases
        calls, laps = times[: -len(phases) - 1], times[-len(phases) - 1 :]
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
            collectives=collectives(mark.calls, calls, buckets=mark.buckets),
            slept=mark.slept,
        )


def ties(rank: int, clock: Clock) -> list[Tied]:
    """How exact the times of a rank's device are, if that has changed: said before the step that it holds for."""
    exactness = clock.tied_anew()
    return [Tied(rank=rank, at_ns=exactness.from_ns, error_ns=exactness.error_ns)] if exactness else []


class Quiet(Progress):
    """Without instruments: when the steps began, and when they were over; nothing in between."""

    def __init__(self, rank: int, warmup_steps: int, reporter: Reporter) -> None:
        super().__init__(rank, warmup_steps, reporter)
        self._steps = 0
        self._samples = 0
        self._begins: list[Any] = []  # moments: of the first step, and of the first one after the warm-up

    def ready(self, steps: int, parameters: int, start_ns: int) -> None:
        super().ready(steps, parameters, start_ns)
        self._steps = steps

    def step(self, mark: Mark, clock: Clock) -> None:
        self._begins += [mark.laps.moments[0] for first in (0, self._warmup_steps) if mark.step == first]
        if mark.step >= self._warmup_steps:
            self._samples += mark.samples
        if mark.step == self._steps - 1:
            self._reporter.say(partial(self._trained, mark, clock))

    def _trained(self, last: Mark, clock: Clock) -> Sequence[RankMessage] | None:
        times = clock.resolve([*self._begins, last.laps.moments[-1]])
        if times is None:
            return None
        first_ns, begin_ns, end_ns = times
        loss = clock.read(last.loss)
        return [
            Trained(
                rank=self.rank,
                first_ns=first_ns,
                begin_ns=begin_ns,
                end_ns=end_ns,
                steps=self._steps - self._warmup_steps,
                samples=self._samples,
                loss=loss if math.isfinite(loss) else None,
            )
        ]


def progress_of(me: Rank) -> Progress:
    kind = Progress if me.trial.instruments == "on" else Quiet
    return kind(me.rank, me.trial.warmup_steps, me.reporter)
