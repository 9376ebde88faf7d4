"""Measures how long a call takes: all ranks call repeatedly, as often as they have agreed.

There are three cadences. Back to back, as in nccl-tests, a call starts when the previous one has ended on this rank,
whatever the others do: the total time divided by the number of calls is the cost of a call in a sequence. With
barriers, each call follows an untimed barrier, so that all ranks start together, except that some leave the barrier
later. Pipelined (pipelined.py), a timed call is several calls in flight, back to back with the next several.
"""

import time
from typing import Any

import torch
import torch.distributed as dist

from workers.instruments.clock import Clock
from workers.primitives.primitive import Primitive

# Each size is timed in several rounds, with the other sizes in between. On a busy host, all calls within some
# hundredths of a second are fast or slow, depending on how the scheduler has placed the ranks. So each size gets a
# share of both.
ROUNDS = 5  # each round costs an untimed call
DEVICE_POLL_S = 0.001


class Timer:
    """Times one primitive with one size, on this rank."""

    def __init__(self, primitive: Primitive, clock: Clock) -> None:
        self._primitive = primitive
        self._clock = clock
        self._calls_per_round = 0
        self.calls = 0  # calls begun so far, including the warm-up
        self.lengths_ns: list[int] = []  # the length of each timed call

    def warm_up(self, *, calls: int, most: int, most_s: float) -> None:
        """Make `calls` untimed calls (at least one). The ranks then agree on the number of calls per round: at least
        one, at most `most`, and so few that all rounds together take at most `most_s` seconds."""
        estimate_s = min(self._estimate() for _ in range(max(1, calls)))
        affordable = max(1, min(most, int(most_s / ROUNDS / max(estimate_s, 1e-6))))
        agreed = torch.tensor([affordable], device=self._primitive.device)
        dist.broadcast(agreed, src=0)  # rank 0 decides: all ranks must call equally often
        self._calls_per_round = int(agreed.item())

    def round(self, *, after_barrier: bool) -> None:
        """Time the calls of one round."""
        self._call()  # untimed, since another size was called before
        dist.barrier()
        self.lengths_ns += self._after_barriers() if after_barrier else self._back_to_back()

    def _estimate(self) -> float:
        begin = self._clock.now()
        self._call()
        [length_ns] = self._lengths([begin, self._clock.now()])
        return length_ns / 1e9

    def _back_to_back(self) -> list[int]:
        now, call = self._clock.now, self._primitive.timed_call  # looked up once, since small calls take microseconds
        moments = [now()]
        for _ in range(self._calls_per_round):
            self.calls += 1
            call()
            moments.append(now())
        return self._lengths(moments)

    def _after_barriers(self) -> list[int]:
        moments = []
        for _ in range(self._calls_per_round):
            dist.barrier()
            moments.append(self._clock.now())
            self._call()
            moments.append(self._clock.now())
        return self._lengths(moments)[::2]

    def _call(self) -> None:
        self.calls += 1
        self._primitive.timed_call()

    def _lengths(self, moments: list[Any]) -> list[int]:
        """Wait until the device has reached the moments. Returns the time from each to the next, in ns."""
        while (lengths_ns := self._clock.lengths(moments)) is None:
            time.sleep(DEVICE_POLL_S)
        return lengths_ns
