"""The numbers that ranks pass to a primitive: small integers, so that every sum is exact in any order.

All ranks can generate the numbers of all ranks, so each can compute the expected result.
"""

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from ddptui.config.catalog import ReduceOpName

PERIOD = 65_521  # a prime, so that no two blocks of a usual size of the same rank are equal
LARGEST = 251  # the sum over 1024 ranks stays below 2**24, up to which float32 is exact for integers
REDUCTIONS: dict[ReduceOpName, Callable[..., Tensor]] = {
    "sum": torch.sum, "product": torch.prod, "max": torch.amax, "min": torch.amin, "avg": torch.mean
}  # fmt: skip
MOST_RANKS = 1024  # the limit of Trial.world_size, so that no two ranks or seeds share a generator's seed


class Numbers(Protocol):
    """The numbers of all ranks, in float64."""

    def of(self, rank: int, count: int) -> Tensor:
        """The first `count` numbers of a rank; shape (count)."""

    def reduced(self, op: ReduceOpName, ranks: int, count: int) -> Tensor:
        """The first `count` numbers of all ranks, reduced element by element; shape (count)."""


class Readable:
    """Numbers for display: the tens digit is the rank, the ones digit the element."""

    def __init__(self, most: int) -> None:
        """most: the number of elements per rank."""
        self._base = 10 ** len(str(most))  # with more than 9 elements, the hundreds digit is the rank, and so on

    def of(self, rank: int, count: int) -> Tensor:
        numbers: Tensor = torch.arange(1, count + 1, dtype=torch.float64) + self._base * rank
        return numbers

    def reduced(self, op: ReduceOpName, ranks: int, count: int) -> Tensor:
        return reduce(op, torch.stack([self.of(rank, count) for rank in range(ranks)]))


class Scrambled:
    """Numbers for checks, different for each seed and rank, so that an element in the wrong place is a wrong number.

    They are periodic, so that the expected result of a hundred million numbers is computed from some thousands.
    """

    def __init__(self, seed: int, op: ReduceOpName = "sum") -> None:
        self._seed = seed
        self._multiplies = op == "product"

    def of(self, rank: int, count: int) -> Tensor:
        return repeat_to(self._period(rank, count), count)

    def reduced(self, op: ReduceOpName, ranks: int, count: int) -> Tensor:
        return repeat_to(reduce(op, torch.stack([self._period(rank, count) for rank in range(ranks)])), count)

    def _period(self, rank: int, count: int) -> Tensor:
        """The first `count` numbers of a period: a generator's first numbers do not depend on how many it makes."""
        generator = torch.Generator().manual_seed(self._seed * MOST_RANKS + rank)
        low, high = (1, 2) if self._multiplies else (1, LARGEST)
        numbers = torch.randint(low, high + 1, (min(count, PERIOD),), generator=generator).double()
        return 2**numbers if self._multiplies else numbers  # products of 2s and 4s are exact, and equal no factor


def repeat_to(period: Tensor, count: int) -> Tensor:
    """Repeat a period up to `count` numbers."""
    return period.repeat(-(-count // max(1, len(period))))[:count]


def reduce(op: ReduceOpName, by_rank: Tensor) -> Tensor:
    """Reduce numbers of shape (ranks, count) to shape (count), in float64."""
    reduced: Tensor = REDUCTIONS[op](by_rank, dim=0)
    return reduced


def wrong_elements(actual: Tensor, expected: Tensor, ranks: int) -> int:
    """The number of elements that differ from the expected ones. Integers must be exact."""
    # A mean that is no integer may have the rounding error of the division, or multiplication by 1/ranks.
    tolerance = ranks * torch.finfo(actual.dtype).eps * expected.abs() * (expected != expected.round())
    error = (actual.double().cpu() - expected).abs()
    return int((~(error <= tolerance)).sum())  # written so that NaN counts as wrong
