"""What is asked of every primitive: its buffers, its call as one would type it, and what must come out."""

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


class Setting(NamedTuple):
    """Who calls, and with what. elements: of each tensor that a rank passes, so for operations that move parts, of a
    part; root: of the operations that have one."""

    rank: int
    ranks: int
    root: int
    elements: int
    dtype: torch.dtype
    device: torch.device
    reduce_op: ReduceOpName = "sum"


class Argument(NamedTuple):
    """What a rank passes under one name: a tensor, or a list of them; None where the others pass it, but not this one.
    undefined: what is in it after the call, the operation leaves open."""

    name: str
    tensors: Sequence[Tensor] | None
    undefined: bool = False


class Primitive:
    """One primitive, as one rank calls it."""

    transfers = 1  # one after the other, in a timed call

    def __init__(self, setting: Setting) -> None:
        self.rank, self.ranks, self.root, self.elements, self.dtype, self.device, self.reduce_op = setting
        self.op = OPS[self.reduce_op]
        self.allocate()

    def allocate(self) -> None:
        """Make the buffers."""

    def fill(self, numbers: Numbers) -> None:
        """Put this rank's own numbers in; what is only received into is 0."""

    def call(self) -> None:
        raise NotImplementedError

    def timed_call(self) -> None:
        """What is timed: the call, unless there is more to say."""
        self.call()

    @property
    def takes_part(self) -> bool:
        """Whether this rank has anything to do."""
        return True

    def spelled(self) -> str:
        """The call, as one would type it."""
        raise NotImplementedError

    def arguments(self) -> list[Argument]:
        raise NotImplementedError

    def wanted(self, numbers: Numbers) -> Iterator[tuple[Tensor, Tensor]]:
        """Tensors that the call has left on this rank, each with what it should be. What is undefined is not among
        them."""
        yield from ()

    def tensor(self) -> Tensor:
        """A buffer of one's own, in memory that is really there."""
        return torch.empty(self.elements, dtype=self.dtype, device=self.device).fill_(0)

    def tensors(self) -> list[Tensor]:
        """One for each rank."""
        return [self.tensor() for _ in range(self.ranks)]

    def part(self, whole: Tensor, number: int) -> Tensor:
        """Of a tensor that holds everybody's parts, one."""
        return whole[number * self.elements : (number + 1) * self.elements]

    @property
    def op_text(self) -> str:
        return f"op=ReduceOp.{self.reduce_op.upper()}"
