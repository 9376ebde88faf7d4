"""How long a call takes: all ranks call again and again, as often as they have agreed to.

The calls of one size are not made all at once but in rounds, the other sizes in between: on a busy host a few
hundredths of a second are all fast or all slow, as the scheduler has placed the ranks, and each size should meet its
share of both.

Back to back is what nccl-tests does: a call begins when the one before is over on this rank, whatever the others do; so
the time of all calls by their number is what a stream of them costs. Or each call follows a barrier, whose time is not
counted: then all ranks begin together, but for what leaving a barrier takes some of them longer.
"""

import time
from itertools import pairwise
from typing import Any

import torch
import torch.distributed as dist

from workers.instruments.clock import Clock
from workers.primitives.primitive import Primitive

ROUNDS = 5
DEVICE_POLL_S = 0.001


class Timer:
    """`calls`: how many have been begun, the warm-up too; `lengths_ns`: of each call that was timed, on this rank."""

    def __init__(self, primitive: Primitive, clock: Clock) -> None:
        self._primitive = primitive
        self._clock = clock
        self._wanted = 0
        self.calls = 0
        self.lengths_ns: list[int] = []

    def warm_up(self, *, calls: int, most: int, most_s: float) -> None:
        """Call (once at least) without being timed, and agree on how often it will be in each round: no more than
        `most`, and no longer than `most_s` in all rounds together, but once in any case."""
        estimate_s = min(self._estimate() for _ in range(max(1, calls)))
        self._wanted = self._agree(max(1, min(most, int(most_s / ROUNDS / max(estimate_s, 1e-6)))))

    def round(self, *, after_barrier: bool) -> None:
        """Time the calls of a round; one more goes before them, since another size was called meanwhile."""
        self._call()
        dist.barrier()
        self.lengths_ns += self._after_barriers() if after_barrier else self._back_to_back()

    def _estimate(self) -> float:
        begin = self._clock.now()
        self._call()
        begin_ns, end_ns = self._resolved([begin, self._clock.now()])
        return (end_ns - begin_ns) / 1e9

    def _agree(self, calls: int) -> int:
        """All ranks must call equally often: rank 0 says how often."""
        agreed = torch.tensor([calls], device=self._primitive.device)
        dist.broadcast(agreed, src=0)
        return int(agreed.item())

    def _back_to_back(self) -> list[int]:
        now, call = self._clock.now, self._primitive.timed_call
        moments = [now()]
        for _ in range(self._wanted):
            self.calls += 1
            call()
            moments.append(now())
        ns = self._resolved(moments)
        return [end - begin for begin, end in pairwise(ns)]

    def _after_barriers(self) -> list[int]:
        moments = []
        for _ in range(self._wanted):
            dist.barrier()
            moments.append(self._clock.now())
            self._call()
            moments.append(self._clock.now())
        ns = self._resolved(moments)
        return [end - begin for begin, end in zip(ns[::2], ns[1::2], strict=True)]

    def _call(self) -> None:
        self.calls += 1
        self._primitive.timed_call()

    def _resolved(self, moments: list[Any]) -> list[int]:
        """In ns, once the device has got there."""
        while (ns := self._clock.resolve(moments)) is None:
            time.sleep(DEVICE_POLL_S)
        return ns
