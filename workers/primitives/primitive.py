"""The interface of every primitive: its buffers and numbers, its call as one would type it, and the expected
result.

All ranks can generate the numbers of all ranks, so each can compute the expected result.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

import torch
import torch.distributed as dist
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


Works = Sequence[dist.Work | None]  # operations to wait for; None if already over


def wait(works: Works) -> None:
    """Wait until all of these operations are over."""
    for work in works:
        if work is not None:
            work.wait()


class Setting(NamedTuple):
    """The calling rank, and the parameters of its calls."""

    rank: int
    ranks: int
    root: int  # for operations with a root
    elements: int  # elements of each tensor that a rank passes; for operations on parts, of one part
    dtype: torch.dtype
    device: torch.device
    reduce_op: ReduceOpName = "sum"


Content = Callable[[Numbers], Iterator[Tensor]]  # yields the values of each tensor of an argument, in float64


class Argument(NamedTuple):
    """One argument of a call: a tensor, or a list of tensors."""

    name: str
    tensors: Sequence[Tensor] | None  # None: only other ranks pass it
    before: Content | None = None  # what the rank sends; None: it only receives, into zeros
    after: Content | None = None  # None: the operation does not define the content after the call


class Primitive:
    """One primitive, as one rank calls it."""

    transfers = 1  # transfers in a timed call; its time is divided by this

    def __init__(self, setting: Setting) -> None:
        self.rank, self.ranks, self.root, self.elements, self.dtype, self.device, self.reduce_op = setting
        self.op = getattr(dist.ReduceOp, self.reduce_op.upper())
        self.allocate()

    def allocate(self) -> None:
        """Allocate the buffers."""

    def fill(self, numbers: Numbers) -> None:
        """Fill the buffers for a call with these numbers."""
        for argument in self.arguments():
            tensors = argument.tensors or ()
            contents = argument.before(numbers) if tensors and argument.before else map(torch.zeros_like, tensors)
            for tensor, content in zip(tensors, contents, strict=True):
                tensor.copy_(content)

    def begin(self, *, async_op: bool = True) -> Works:
        """Start a call. Returns the operations to wait for. async_op: False to wait in the call, as far as torch
        does."""
        raise NotImplementedError

    def call(self) -> None:
        """Call the primitive once."""
        self.begin(async_op=False)

    def timed_call(self) -> None:
        """Make the call that is timed. For a primitive that can only be timed together with others, several calls."""
        self.call()

    def in_flight(self) -> Sequence["Primitive"]:
        """The calls that are in flight at once in a timed call, each with its own buffers."""
        return [self]

    @property
    def takes_part(self) -> bool:
        """Whether this rank takes part in the transfer."""
        return True

    def call_text(self) -> str:
        """The call, as one would type it."""
        raise NotImplementedError

    def arguments(self) -> list[Argument]:
        """The arguments that this rank passes."""
        return []

    def expected(self, numbers: Numbers) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the tensors that are defined on this rank after the call, each with its expected values in float64."""
        for argument in self.arguments():
            if argument.tensors and argument.after:
                yield from zip(argument.tensors, argument.after(numbers), strict=True)

    def own(self, numbers: Numbers) -> Iterator[Tensor]:
        """This rank's numbers."""
        yield numbers.of(self.rank, self.elements)

    def reduced(self, numbers: Numbers) -> Iterator[Tensor]:
        """The reduction of all ranks' numbers."""
        yield numbers.reduced(self.reduce_op, self.ranks, self.elements)

    def own_parts(self, numbers: Numbers) -> Iterator[Tensor]:
        """This rank's parts, one for each rank."""
        whole = numbers.of(self.rank, self.ranks * self.elements)
        yield from whole.split(self.elements)

    def tensor(self) -> Tensor:
        """A new buffer."""
        # Write to the memory, since Linux assigns a page only at the first write to it.
        return torch.empty(self.elements, dtype=self.dtype, device=self.device).fill_(0)

    def tensors(self) -> list[Tensor]:
        """New buffers, one for each rank."""
        return [self.tensor() for _ in range(self.ranks)]

    def own_part_of(self, whole: Tensor) -> Tensor:
        """This rank's part of a tensor that holds the parts of all ranks."""
        return whole[self.rank * self.elements : (self.rank + 1) * self.elements]

    @property
    def op_text(self) -> str:
        return f"op=ReduceOp.{self.reduce_op.upper()}"


class OneTensor(Primitive):
    """A primitive to which every rank passes one tensor, which the call may change."""

    def allocate(self) -> None:
        self.buffer = self.tensor()

    def arguments(self) -> list[Argument]:
        return [Argument("tensor", [self.buffer], self.own, self.result)]

    def result(self, numbers: Numbers) -> Iterator[Tensor]:
        """The tensor's content after the call."""
        return self.reduced(numbers)
