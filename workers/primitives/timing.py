"""How long a call takes: all ranks call again and again, as often as they have agreed to.

Back to back is what nccl-tests does: a call begins when the one before is over on this rank, whatever the others do; so
the time of all calls by their number is what a stream of them costs. Or each call follows a barrier, whose time is not
counted: then all ranks begin together, but for what leaving a barrier takes some of them longer.
"""

import time
from itertools import pairwise
from typing import Any

import torch
import torch.distributed as dist

from workers.clock import Clock
from workers.primitives.primitive import Primitive

FEWEST = 5  # calls, however long they take
DEVICE_POLL_S = 0.001


class Timer:
    """`calls`: how many have been begun, the warm-up too."""

    def __init__(self, primitive: Primitive, clock: Clock) -> None:
        self._primitive = primitive
        self._clock = clock
        self.calls = 0

    def lengths_ns(self, *, warmup: int, most: int, most_s: float, after_barrier: bool) -> list[int]:
        """Of each call on this rank; those to warm up (one at least) are not among them."""
        estimate_s = min(self._warm_up() for _ in range(max(1, warmup)))
        calls = self._agree(max(FEWEST, min(most, int(most_s / max(estimate_s, 1e-6)))), most)
        dist.barrier()
        return self._after_barriers(calls) if after_barrier else self._back_to_back(calls)

    def _warm_up(self) -> float:
        begin = self._clock.now()
        self._call()
        begin_ns, end_ns = self._resolved([begin, self._clock.now()])
        return (end_ns - begin_ns) / 1e9

    def _agree(self, calls: int, most: int) -> int:
        """All ranks must call equally often: rank 0 says how often."""
        agreed = torch.tensor([min(calls, most)], device=self._primitive.device)
        dist.broadcast(agreed, src=0)
        return int(agreed.item())

    def _back_to_back(self, calls: int) -> list[int]:
        now, call = self._clock.now, self._primitive.timed_call
        moments = [now()]
        for _ in range(calls):
            self.calls += 1
            call()
            moments.append(now())
        ns = self._resolved(moments)
        return [end - begin for begin, end in pairwise(ns)]

    def _after_barriers(self, calls: int) -> list[int]:
        moments = []
        for _ in range(calls):
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
