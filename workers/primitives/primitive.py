"""What every primitive defines: its buffers, its call as one would type it, and the result that must come out."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from ddptui.config.primitives import ReduceOpName
from workers.primitives.numbers import Numbers

OPS = {
    "sum": dist.ReduceOp.SUM,
    "product": dist.ReduceOp.PRODUCT,
    "max": dist.ReduceOp.MAX,
    "min": dist.ReduceOp.MIN,
    "avg": dist.ReduceOp.AVG,
}
Works = Sequence[dist.Work | None]  # what has been begun, and must be waited for; None: it is over


def wait(works: Works) -> None:
    """Wait until all of these are over."""
    for work in works:
        if work is not None:
            work.wait()


class Setting(NamedTuple):
    """Who calls, and with what."""

    rank: int
    ranks: int
    root: int  # for operations that have one
    elements: int  # of each tensor that a rank passes; so of one part, for operations that move parts
    dtype: torch.dtype
    device: torch.device
    reduce_op: ReduceOpName = "sum"


class Argument(NamedTuple):
    """What a rank passes under one name: a tensor, or a list of them."""

    name: str
    tensors: Sequence[Tensor] | None  # None: other ranks pass it, but not this one
    undefined: bool = False  # the operation does not define its content after the call


class Primitive:
    """One primitive, as one rank calls it."""

    transfers = 1  # in a timed call, whose time is divided by that

    def __init__(self, setting: Setting) -> None:
        self.rank, self.ranks, self.root, self.elements, self.dtype, self.device, self.reduce_op = setting
        self.op = OPS[self.reduce_op]
        self.allocate()

    def allocate(self) -> None:
        """Make the buffers."""

    def fill(self, numbers: Numbers) -> None:
        """Put this rank's numbers into what it sends, and 0 into what it only receives."""

    def begin(self, *, async_op: bool = True) -> Works:
        """Begin a call. Returns what to wait for; async_op=False: the call is over, as far as torch waits."""
        raise NotImplementedError

    def call(self) -> None:
        """Call the primitive once."""
        self.begin(async_op=False)

    def timed_call(self) -> None:
        """What is timed: the call, unless a primitive needs more than one to be timed."""
        self.call()

    def in_flight(self) -> Sequence["Primitive"]:
        """The calls that a timed call has under way at once, each with buffers of its own."""
        return [self]

    @property
    def takes_part(self) -> bool:
        """Whether this rank has anything to do."""
        return True

    def call_text(self) -> str:
        """The call, as one would type it."""
        raise NotImplementedError

    def arguments(self) -> list[Argument]:
        """What this rank passes."""
        raise NotImplementedError

    def expected(self, numbers: Numbers) -> Iterator[tuple[Tensor, Tensor]]:
        """The tensors that the call leaves defined on this rank, each with its right values, in float64."""
        yield from ()

    def tensor(self) -> Tensor:
        """A new buffer."""
        # Written to, so that its memory is really there: Linux assigns a page only at the first write to it.
        return torch.empty(self.elements, dtype=self.dtype, device=self.device).fill_(0)

    def tensors(self) -> list[Tensor]:
        """A new buffer for each rank."""
        return [self.tensor() for _ in range(self.ranks)]

    def part(self, whole: Tensor, number: int) -> Tensor:
        """One rank's part of a tensor that holds the parts of all ranks."""
        return whole[number * self.elements : (number + 1) * self.elements]

    @property
    def op_text(self) -> str:
        return f"op=ReduceOp.{self.reduce_op.upper()}"


class OneTensor(Primitive):
    """A primitive to which every rank passes one tensor, which the call may change."""

    def allocate(self) -> None:
        self.buffer = self.tensor()

    def fill(self, numbers: Numbers) -> None:
        self.buffer.copy_(numbers.of(self.rank, self.elements))

    def arguments(self) -> list[Argument]:
        return [Argument("tensor", [self.buffer])]
