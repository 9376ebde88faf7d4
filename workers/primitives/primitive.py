"""The interface of every primitive: its buffers, its call as one would type it, and the expected result."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from ddptui.config.catalog import ReduceOpName
from workers.primitives.numbers import Numbers

OPS = {
    "sum": dist.ReduceOp.SUM,
    "product": dist.ReduceOp.PRODUCT,
    "max": dist.ReduceOp.MAX,
    "min": dist.ReduceOp.MIN,
    "avg": dist.ReduceOp.AVG,
}
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


class Argument(NamedTuple):
    """One argument of a call: a tensor, or a list of tensors."""

    name: str
    tensors: Sequence[Tensor] | None  # None: only other ranks pass it
    undefined: bool = False  # the operation does not define its content after the call


class Primitive:
    """One primitive, as one rank calls it."""

    transfers = 1  # transfers in a timed call; its time is divided by this

    def __init__(self, setting: Setting) -> None:
        self.rank, self.ranks, self.root, self.elements, self.dtype, self.device, self.reduce_op = setting
        self.op = OPS[self.reduce_op]
        self.allocate()

    def allocate(self) -> None:
        """Allocate the buffers."""

    def fill(self, numbers: Numbers) -> None:
        """Fill the buffers: this rank's numbers into those that it sends, 0 into those that it only receives."""

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
        raise NotImplementedError

    def expected(self, numbers: Numbers) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the tensors that are defined on this rank after the call, each with its expected values in float64."""
        yield from ()

    def tensor(self) -> Tensor:
        """A new buffer."""
        # Write to the memory, since Linux assigns a page only at the first write to it.
        return torch.empty(self.elements, dtype=self.dtype, device=self.device).fill_(0)

    def tensors(self) -> list[Tensor]:
        """New buffers, one for each rank."""
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
