"""The numbers that ranks pass to a primitive: small integers, whose every sum is exact, in any order.

All ranks know them, so each can compute what must come out.
"""

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from ddptui.config.primitives import ReduceOpName

PERIOD = 65_521  # a prime: no block of a usual size looks like another one of the same rank
LARGEST = 251  # the sum of 1024 ranks' stays below 2**24, up to which float32 has every integer
REDUCTIONS: dict[ReduceOpName, Callable[..., Tensor]] = {
    "sum": torch.sum, "product": torch.prod, "max": torch.amax, "min": torch.amin, "avg": torch.mean
}  # fmt: skip
MOST_RANKS = 1024  # as in Trial.world_size: no two ranks or seeds share a generator's seed


class Numbers(Protocol):
    """The numbers of all ranks, in float64."""

    def of(self, rank: int, count: int) -> Tensor:
        """The first `count` numbers of a rank, (count)."""

    def reduced(self, op: ReduceOpName, ranks: int, count: int) -> Tensor:
        """The first `count` numbers of all ranks, reduced element by element, (count)."""


class Readable:
    """Numbers for people: the tens digit is the rank, the ones digit the element."""

    def __init__(self, most: int) -> None:
        """most: elements of a rank."""
        self._base = 10 ** len(str(most))  # with more than 9 elements the hundreds are the rank, and so on

    def of(self, rank: int, count: int) -> Tensor:
        numbers: Tensor = torch.arange(1, count + 1, dtype=torch.float64) + self._base * rank
        return numbers

    def reduced(self, op: ReduceOpName, ranks: int, count: int) -> Tensor:
        return reduce(op, torch.stack([self.of(rank, count) for rank in range(ranks)]))


class Scrambled:
    """Numbers for checks, different for each seed and rank: an element in the wrong place is a wrong number.

    They repeat with a period, so that the result for a hundred million of them is computed on some thousands.
    """

    def __init__(self, seed: int, op: ReduceOpName = "sum") -> None:
        self._seed = seed
        self._multiplies = op == "product"

    def of(self, rank: int, count: int) -> Tensor:
        return repeat_to(self._period(rank, count), count)

    def reduced(self, op: ReduceOpName, ranks: int, count: int) -> Tensor:
        return repeat_to(reduce(op, torch.stack([self._period(rank, count) for rank in range(ranks)])), count)

    def _period(self, rank: int, count: int) -> Tensor:
        """One period, or as much of it as is needed: a generator's first numbers are the same however many it makes."""
        generator = torch.Generator().manual_seed(self._seed * MOST_RANKS + rank)
        low, high = (1, 2) if self._multiplies else (1, LARGEST)
        numbers = torch.randint(low, high + 1, (min(count, PERIOD),), generator=generator).double()
        return 2**numbers if self._multiplies else numbers  # a product of 2s and 4s is exact, and equals no factor


def repeat_to(period: Tensor, count: int) -> Tensor:
    """The period, repeated up to `count` numbers."""
    return period.repeat(-(-count // max(1, len(period))))[:count]


def reduce(op: ReduceOpName, by_rank: Tensor) -> Tensor:
    """(ranks, count) to (count), in float64."""
    reduced: Tensor = REDUCTIONS[op](by_rank, dim=0)
    return reduced


def wrong_elements(actual: Tensor, expected: Tensor, ranks: int) -> int:
    """How many elements are not as expected. Integers must be exact."""
    # A mean may lose what dividing, or multiplying by 1/ranks, loses: its sum is exact.
    tolerance = ranks * torch.finfo(actual.dtype).eps * expected.abs() * (expected != expected.round())
    error = (actual.double().cpu() - expected).abs()
    return int((~(error <= tolerance)).sum())  # so that NaN is wrong, too
