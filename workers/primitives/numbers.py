"""The numbers that ranks pass to a primitive: known to all, so that each can tell what must come out.

They are small whole numbers: every sum of them is exact, in whatever order it is taken.
"""

from typing import Protocol

import torch
from torch import Tensor

from ddptui.config.primitives import ReduceOpName

PERIOD = 65_521  # a prime: no block of a usual size can be mistaken for another one of the same rank
LARGEST = 251
MOST_RANKS = 1024


class Numbers(Protocol):
    def of(self, rank: int, count: int) -> Tensor:
        """The first `count` numbers of a rank."""

    def reduced(self, op: ReduceOpName, ranks: int, count: int) -> Tensor:
        """What all ranks' first `count` numbers come to, one by one."""


class Readable:
    """Numbers to be looked at: the tens say whose they are, the ones which element. (Or the hundreds and the rest, for
    who has more than 9.)"""

    def __init__(self, most: int) -> None:
        """most: elements of a rank."""
        self._base = 10 ** len(str(most))

    def of(self, rank: int, count: int) -> Tensor:
        numbers: Tensor = torch.arange(1, count + 1, dtype=torch.float64) + self._base * rank
        return numbers

    def reduced(self, op: ReduceOpName, ranks: int, count: int) -> Tensor:
        return reduce(op, torch.stack([self.of(rank, count) for rank in range(ranks)]))


class Scrambled:
    """Numbers to be checked, others for each seed and rank: what is in the wrong place is a wrong number. They recur,
    so that what a hundred million of them come to is worked out on some thousands. A product takes twos and fours only:
    of these, too, it is exact, and never what one of its factors is."""

    def __init__(self, seed: int, op: ReduceOpName = "sum") -> None:
        self._seed = seed
        self._multiplies = op == "product"

    def of(self, rank: int, count: int) -> Tensor:
        return recurring(self._period(rank), count)

    def reduced(self, op: ReduceOpName, ranks: int, count: int) -> Tensor:
        return recurring(reduce(op, torch.stack([self._period(rank) for rank in range(ranks)])), count)

    def _period(self, rank: int) -> Tensor:
        generator = torch.Generator().manual_seed(self._seed * MOST_RANKS + rank)
        low, high = (1, 2) if self._multiplies else (1, LARGEST)
        numbers = torch.randint(low, high + 1, (PERIOD,), generator=generator).double()
        return 2**numbers if self._multiplies else numbers


def recurring(period: Tensor, count: int) -> Tensor:
    return period.repeat(-(-count // len(period)))[:count]


def reduce(op: ReduceOpName, by_rank: Tensor) -> Tensor:
    """ranks × count to count, in float64."""
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


def wrong_elements(found: Tensor, wanted: Tensor, ranks: int) -> int:
    """How many elements are not what they should be. Whole numbers must be exact; of a mean, the sum is, and what its
    division or its multiplication by 1/ranks may lose is let pass."""
    tolerance = ranks * torch.finfo(found.dtype).eps * wanted.abs() * (wanted != wanted.round())
    off = (found.double().cpu() - wanted).abs()
    return int((~(off <= tolerance)).sum())  # what is not a number is wrong, too
