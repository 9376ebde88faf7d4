"""What a rank tells of its training: that it is ready, every step once the device has made it, and that it is done."""

import math
import time
from collections import deque
from itertools import pairwise
from typing import NamedTuple

from torch import Tensor

from ddptui.wire import PHASES, Done, Fingerprint, Ready, Step
from workers.clock import Clock
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


class Mark(NamedTuple):
    """A step as the loop leaves it, its loss where the device has it."""

    step: int
    epoch: int
    laps: Laps
    samples: int
    loss: Tensor


class Progress:
    """The progress of one rank."""

    def __init__(self, rank: int, warmup_steps: int, reporter: Reporter) -> None:
        self.rank = rank
        self._warmup_steps = warmup_steps
        self._reporter = reporter
        self._pending: deque[Mark] = deque()

    def ready(self, steps: int, parameters: int) -> None:
        self._reporter.say(Ready(rank=self.rank, at_ns=time.monotonic_ns(), steps=steps, parameters=parameters))

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
        while self._pending and (times := clock.resolve(self._pending[0].laps.moments)):
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
        lengths = {phase: end - begin for phase, (begin, end) in zip(mark.laps.phases, pairwise(times), strict=True)}
        data, forward, backward, aggregate, optimizer = (lengths.get(phase, 0) for phase in PHASES)
        return Step(
            rank=self.rank,
            step=mark.step,
            epoch=mark.epoch,
            warmup=mark.step < self._warmup_steps,
            begin_ns=times[0],
            end_ns=times[-1],
            phases_ns=(data, forward, backward, aggregate, optimizer),
            samples=mark.samples,
            loss=loss if math.isfinite(loss) else None,
        )
