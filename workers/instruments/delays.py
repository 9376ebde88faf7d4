"""Injects the delays of a trial: the rank sleeps. The trial describes a delay by site, ranks, length and steps.

On a GPU, the rank first waits until its device has finished. Otherwise the device would work on queued operations
during the delay and hardly be late. Nowhere else do the instruments make the loop wait for its device.
"""

import math
import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from .records import Slept

if TYPE_CHECKING:
    from ddptui.config.trial import Bottleneck, Site

OwnDelay = Callable[[str, int, int], float | None]  # site, rank and step; returns ms


class Delays:
    """The delays of one rank, which the loop calls wherever one may be injected. Counts those that really happened: at
    `start` always, others after the warm-up."""

    fired = 0  # delays so far, without those of the warm-up
    slept_ns = 0  # their total length

    def __init__(
        self,
        bottlenecks: "tuple[Bottleneck, ...]" = (),
        rank: int = 0,
        *,
        seed: int = 0,
        warmup_steps: int = 0,
        device: torch.device = torch.device("cpu"),  # noqa: B008  (it never changes)
        own: Callable[[str], OwnDelay] | None = None,
    ) -> None:
        """own: finds the user's own function that the site of a delay names; None: it cannot name one."""
        self._taken: list[Slept] = []
        self._is_asleep = False
        self._find_own = own
        self._rank = rank
        self._device = device
        self._random = random.Random(f"{seed} {rank}")  # reproducible, and independent of torch's
        self.warmup_steps = warmup_steps
        self._step: int | None = None  # None before the first step and after the last
        self._collectives: int | None = None  # collectives of this step's aggregation; None until forward is over
        self.set(bottlenecks)

    @property
    def asleep(self) -> bool:
        """Whether a delay is in progress. Any thread may call this."""
        return self._is_asleep

    def set(self, bottlenecks: "tuple[Bottleneck, ...]") -> None:
        """Replace the delays."""
        # Without slow links, by which the network is late, not the rank.
        self._bottlenecks = [delay for delay in bottlenecks if self._rank in delay.ranks and delay.at != "link"]
        is_own = [delay for delay in self._bottlenecks if ":" in delay.at]
        self._own = {delay.at: self._find_own(delay.at) for delay in is_own} if self._find_own else {}
        self.are_any = bool(self._bottlenecks)  # whether delays are to be injected, now or later

    def start(self) -> None:
        """Inject the delays at the rank's start, before it joins the process group."""
        for bottleneck in self._bottlenecks:
            if bottleneck.at == "start":
                self._sleep("start", bottleneck)

    def begin(self, step: int) -> None:
        """A step begins."""
        self._step = step
        self._collectives = None

    def end(self) -> None:
        """The last step is over: inject no more delays."""
        self._step = None

    def at(self, site: "Site") -> None:
        """Inject the delays that are due at this site of the current step."""
        if site == "forward":  # later collectives aggregate; in earlier ones DDP broadcasts its buffers and buckets
            self._collectives = 0
        for bottleneck in self._bottlenecks:
            if bottleneck.at in (site, *self._own) and self._is_due(bottleneck):
                self._sleep(site, bottleneck)

    def before_collective(self) -> bool:
        """Inject the delays that are due before the collective that follows. Returns whether there was one."""
        if not self._bottlenecks or self._step is None or self._collectives is None:  # not aggregating
            return False
        self._collectives += 1
        delayed = False
        for bottleneck in self._bottlenecks:
            is_its_call = bottleneck.per == "call" or self._collectives == 1
            if bottleneck.at in ("aggregate", *self._own) and is_its_call and self._is_due(bottleneck):
                delayed = self._sleep("aggregate", bottleneck) or delayed
        return delayed

    def taken(self) -> tuple[Slept, ...]:
        """The delays since the last call: those of one step, if called once per step."""
        taken, self._taken = self._taken, []
        return tuple(taken)

    def _is_due(self, bottleneck: "Bottleneck") -> bool:
        if self._step is None or self._step < bottleneck.from_step:
            return False
        if bottleneck.to_step is not None and self._step > bottleneck.to_step:
            return False
        return (self._step - bottleneck.from_step) % bottleneck.every == 0

    def _sleep(self, site: "Site", bottleneck: "Bottleneck") -> bool:
        """Sleep as long as a delay takes here. Returns whether it took any time."""
        length_s = self._length_s(site, bottleneck)
        if length_s is None:
            return False
        if self._device.type == "cuda":  # before `_is_asleep`: waiting for a device that never finishes is not a delay
            torch.cuda.current_stream(self._device).synchronize()
        self._is_asleep = True
        begin = time.monotonic_ns()
        time.sleep(length_s)
        end = time.monotonic_ns()
        self._is_asleep = False
        self._taken.append((site, begin, end))
        if self._step is None or self._step >= self.warmup_steps:
            self.fired += 1
            self.slept_ns += end - begin
        return True

    def _length_s(self, site: "Site", bottleneck: "Bottleneck") -> float | None:
        if bottleneck.at in self._own:
            own_ms = self._own[bottleneck.at](site, self._rank, self._step or 0)
            if own_ms is not None and not (isinstance(own_ms, int | float) and 0 <= own_ms < math.inf):
                own = bottleneck.at.rpartition("/")[2]
                raise TypeError(f"bottleneck {own!r}: it must return a length in ms, or None, but returned {own_ms!r}")
            return own_ms / 1000 if own_ms else None
        mean = bottleneck.sleep_ms / 1000
        match bottleneck.jitter:
            case "uniform":
                return self._random.uniform(0, 2 * mean)
            case "exponential":
                return self._random.expovariate(1 / mean) if mean else 0.0
            case _:
                return mean
