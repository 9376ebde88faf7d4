"""Where the delays go in. A delay is data: site, ranks, length, steps. The rank sleeps.

On a GPU the rank first lets its device finish: else the device would work on through the delay, what the host has put
before it, and hardly notice. It is the only place where we have the loop wait for its device.
"""

import random
import time
from typing import Protocol

import torch

from ddptui.config.trial import Bottleneck, Site
from ddptui.wire.messages import Slept
from workers.rank.device import CPU


class Delays(Protocol):
    """What the loop calls where a delay may go in."""

    fired: int
    slept_ns: int

    @property
    def asleep(self) -> bool: ...

    def set(self, bottlenecks: tuple[Bottleneck, ...]) -> None: ...

    def begin(self, step: int) -> None: ...

    def end(self) -> None: ...

    def at(self, site: Site) -> None: ...

    def before_collective(self) -> bool: ...

    def taken(self) -> tuple[Slept, ...]: ...


class RankDelays:
    """The delays of one rank. Counts what it really did, from after the warm-up on (a delay at `start` always)."""

    def __init__(
        self,
        bottlenecks: tuple[Bottleneck, ...],
        rank: int,
        *,
        seed: int,
        warmup_steps: int,
        device: torch.device = CPU,
    ) -> None:
        self.fired = 0
        self.slept_ns = 0
        self.asleep = False
        self._taken: list[Slept] = []  # since they were last asked for
        self._rank = rank
        self._device = device
        self._random = random.Random(f"{seed} {rank}")
        self._warmup_steps = warmup_steps
        self._step: int | None = None  # none: outside the steps
        self._collectives: int | None = None  # of this step's aggregation; none: it cannot have begun
        self.set(bottlenecks)

    def set(self, bottlenecks: tuple[Bottleneck, ...]) -> None:
        """From now on these delays and no others. (A slow link delays nobody: the network has it.)"""
        mine = [bottleneck for bottleneck in bottlenecks if self._rank in bottleneck.ranks]
        self._mine = [bottleneck for bottleneck in mine if bottleneck.at != "link"]

    def start(self) -> None:
        """The rank starts; it has not met the others yet."""
        for bottleneck in self._mine:
            if bottleneck.at == "start":
                self._sleep("start", bottleneck)

    def begin(self, step: int) -> None:
        self._step = step
        self._collectives = None

    def end(self) -> None:
        """The last step is over: what follows is not delayed."""
        self._step = None

    def at(self, site: Site) -> None:
        """The rank is at `site` of the current step. Once it has been forward, its collectives are the aggregation;
        before (DDP broadcasts buffers, and once the layout of its buckets) they are not."""
        if site == "forward":
            self._collectives = 0
        for bottleneck in self._mine:
            if bottleneck.at == site and self._due(bottleneck):
                self._sleep(site, bottleneck)

    def before_collective(self) -> bool:
        """The rank is about to call a collective. What is no aggregation (the first broadcast) is not delayed. Returns
        whether it was."""
        if not self._mine or self._step is None or self._collectives is None:
            return False
        self._collectives += 1
        delayed = False
        for bottleneck in self._mine:
            called_for = bottleneck.per == "call" or self._collectives == 1
            if bottleneck.at == "aggregate" and called_for and self._due(bottleneck):
                self._sleep("aggregate", bottleneck)
                delayed = True
        return delayed

    def taken(self) -> tuple[Slept, ...]:
        """The delays since this was last asked: those of a step, if it is asked once a step."""
        taken, self._taken = self._taken, []
        return tuple(taken)

    def _due(self, bottleneck: Bottleneck) -> bool:
        if self._step is None or self._step < bottleneck.from_step:
            return False
        if bottleneck.to_step is not None and self._step > bottleneck.to_step:
            return False
        return (self._step - bottleneck.from_step) % bottleneck.every == 0

    def _sleep(self, site: Site, bottleneck: Bottleneck) -> None:
        if self._device.type == "cuda":  # not asleep yet: a device that never finishes is no delay of ours
            torch.cuda.current_stream(self._device).synchronize()
        self.asleep = True
        begin = time.monotonic_ns()
        time.sleep(self._length_s(bottleneck))
        end = time.monotonic_ns()
        self.asleep = False
        self._taken.append(Slept(site, begin, end))
        if self._step is None or self._step >= self._warmup_steps:
            self.fired += 1
            self.slept_ns += end - begin

    def _length_s(self, bottleneck: Bottleneck) -> float:
        mean = bottleneck.sleep_ms / 1000
        match bottleneck.jitter:
            case "uniform":
                return self._random.uniform(0, 2 * mean)
            case "exponential":
                return self._random.expovariate(1 / mean) if mean else 0.0
            case _:
                return mean
