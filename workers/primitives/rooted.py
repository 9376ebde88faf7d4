"""Primitives with a root: one rank gives to all, or gets from all."""

from collections.abc import Iterator

import torch.distributed as dist
from torch import Tensor

from workers.primitives.numbers import Numbers
from workers.primitives.primitive import Argument, OneTensor, Primitive


class Broadcast(OneTensor):
    """Every rank gets the root's tensor."""

    def call(self) -> None:
        dist.broadcast(self.buffer, src=self.root)

    def call_text(self) -> str:
        return f"dist.broadcast(tensor, src={self.root})"

    def expected(self, numbers: Numbers) -> Iterator[tuple[Tensor, Tensor]]:
        yield self.buffer, numbers.of(self.root, self.elements)


class Reduce(OneTensor):
    """The root gets all tensors, reduced to one. The tensors of the others are used on the way, and left undefined."""

    def call(self) -> None:
        dist.reduce(self.buffer, dst=self.root, op=self.op)

    def call_text(self) -> str:
        return f"dist.reduce(tensor, dst={self.root}, {self.op_text})"

    def arguments(self) -> list[Argument]:
        return [Argument("tensor", [self.buffer], undefined=self.rank != self.root)]

    def expected(self, numbers: Numbers) -> Iterator[tuple[Tensor, Tensor]]:
        if self.rank == self.root:
            yield self.buffer, numbers.reduced(self.reduce_op, self.ranks, self.elements)


class Gather(Primitive):
    """The root gets the parts of all ranks, in the order of the ranks."""

    def allocate(self) -> None:
        self.own_part = self.tensor()
        self.parts = self.tensors() if self.rank == self.root else None

    def fill(self, numbers: Numbers) -> None:
        self.own_part.copy_(numbers.of(self.rank, self.elements))
        for part in self.parts or ():
            part.zero_()

    def call(self) -> None:
        dist.gather(self.own_part, self.parts, dst=self.root)

    def call_text(self) -> str:
        parts = "parts, " if self.parts else ""
        return f"dist.gather(tensor, {parts}dst={self.root})"

    def arguments(self) -> list[Argument]:
        return [Argument("tensor", [self.own_part]), Argument("parts", self.parts)]

    def expected(self, numbers: Numbers) -> Iterator[tuple[Tensor, Tensor]]:
        yield self.own_part, numbers.of(self.rank, self.elements)
        for rank, part in enumerate(self.parts or ()):
            yield part, numbers.of(rank, self.elements)


class Scatter(Primitive):
    """Each rank gets one of the root's parts, in the order of the ranks."""

    def allocate(self) -> None:
        self.own_part = self.tensor()
        self.parts = self.tensors() if self.rank == self.root else None

    def fill(self, numbers: Numbers) -> None:
        self.own_part.zero_()
        whole = numbers.of(self.rank, self.ranks * self.elements)
        for number, part in enumerate(self.parts or ()):
            part.copy_(self.part(whole, number))

    def call(self) -> None:
        dist.scatter(self.own_part, self.parts, src=self.root)

    def call_text(self) -> str:
        parts = "parts, " if self.parts else ""
        return f"dist.scatter(tensor, {parts}src={self.root})"

    def arguments(self) -> list[Argument]:
        return [Argument("parts", self.parts), Argument("tensor", [self.own_part])]

    def expected(self, numbers: Numbers) -> Iterator[tuple[Tensor, Tensor]]:
        whole = numbers.of(self.root, self.ranks * self.elements)
        yield self.own_part, self.part(whole, self.rank)
        for number, part in enumerate(self.parts or ()):
            yield part, self.part(whole, number)
