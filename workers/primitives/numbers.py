"""The numbers that ranks pass to a primitive. All ranks know them, so each can compute what must come out.

They are small integers. So every sum of them is exact, in any order.
"""

from typing import Protocol

import torch
from torch import Tensor

from ddptui.config.primitives import ReduceOpName

PERIOD = 65_521  # a prime: no block of a usual size looks like another one of the same rank
LARGEST = 251
MOST_RANKS = 1024


class Numbers(Protocol):
    """The numbers of all ranks, in float64."""

    def of(self, rank: int, count: int) -> Tensor:
        """The first `count` numbers of a rank, (count)."""

    def reduced(self, op: ReduceOpName, ranks: int, count: int) -> Tensor:
        """The first `count` numbers of all ranks, reduced element by element, (count)."""


class Readable:
    """Numbers for people: the tens digit is the rank, the ones digit the element. (With more than 9 elements, the
    hundreds and the rest, and so on.)"""

    def __init__(self, most: int) -> None:
        """most: elements of a rank."""
        self._base = 10 ** len(str(most))

    def of(self, rank: int, count: int) -> Tensor:
        numbers: Tensor = torch.arange(1, count + 1, dtype=torch.float64) + self._base * rank
        return numbers

    def reduced(self, op: ReduceOpName, ranks: int, count: int) -> Tensor:
        return reduce(op, torch.stack([self.of(rank, count) for rank in range(ranks)]))


class Scrambled:
    """Numbers for checks, different for each seed and rank: an element in the wrong place is a wrong number.

    They repeat with a period, so that the result for a hundred million of them is computed on some thousands. A product
    takes only 2 and 4: then it is exact, too, and never equals one of its factors.
    """

    def __init__(self, seed: int, op: ReduceOpName = "sum") -> None:
        self._seed = seed
        self._multiplies = op == "product"

    def of(self, rank: int, count: int) -> Tensor:
        return repeat_to(self._period(rank), count)

    def reduced(self, op: ReduceOpName, ranks: int, count: int) -> Tensor:
        return repeat_to(reduce(op, torch.stack([self._period(rank) for rank in range(ranks)])), count)

    def _period(self, rank: int) -> Tensor:
        generator = torch.Generator().manual_seed(self._seed * MOST_RANKS + rank)
        low, high = (1, 2) if self._multiplies else (1, LARGEST)
        numbers = torch.randint(low, high + 1, (PERIOD,), generator=generator).double()
        return 2**numbers if self._multiplies else numbers


def repeat_to(period: Tensor, count: int) -> Tensor:
    """The period, repeated up to `count` numbers."""
    return period.repeat(-(-count // len(period)))[:count]


def reduce(op: ReduceOpName, by_rank: Tensor) -> Tensor:
    """(ranks, count) to (count), in float64."""
    match op:
        case "sum":
            return by_rank.sum(dim=0)
        case "product":
            return by_rank.prod(dim=0)
        case "max":
            return by_rank.amax(dim=0)
        case "min":
            return by_rank.amin(dim=0)
        case "avg":
            return by_rank.mean(dim=0)


def wrong_elements(actual: Tensor, expected: Tensor, ranks: int) -> int:
    """How many elements are not as expected.

    Integers must be exact. A mean may lose what dividing, or multiplying by 1/ranks, loses: its sum is exact.
    """
    tolerance = ranks * torch.finfo(actual.dtype).eps * expected.abs() * (expected != expected.round())
    error = (actual.double().cpu() - expected).abs()
    return int((~(error <= tolerance)).sum())  # so that NaN is wrong, too
