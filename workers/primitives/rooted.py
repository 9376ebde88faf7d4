"""One rank, the root, gives to all or gets from all."""

from collections.abc import Iterator

import torch.distributed as dist
from torch import Tensor

from workers.primitives.numbers import Numbers
from workers.primitives.primitive import Argument, Primitive


class OneTensor(Primitive):
    """Every rank passes one tensor, which the call may change."""

    def allocate(self) -> None:
        self.buffer = self.tensor()

    def fill(self, numbers: Numbers) -> None:
        self.buffer.copy_(numbers.of(self.rank, self.elements))


class Broadcast(OneTensor):
    """The root's tensor is in everybody's."""

    def call(self) -> None:
        dist.broadcast(self.buffer, src=self.root)

    def spelled(self) -> str:
        return f"dist.broadcast(tensor, src={self.root})"

    def arguments(self) -> list[Argument]:
        return [Argument("tensor", [self.buffer])]

    def wanted(self, numbers: Numbers) -> Iterator[tuple[Tensor, Tensor]]:
        yield self.buffer, numbers.of(self.root, self.elements)


class Reduce(OneTensor):
    """All tensors as one in the root's. The others' serve as scratch paper on the way: what is left there means
    nothing."""

    def call(self) -> None:
        dist.reduce(self.buffer, dst=self.root, op=self.op)

    def spelled(self) -> str:
        return f"dist.reduce(tensor, dst={self.root}, {self.op_text})"

    def arguments(self) -> list[Argument]:
        return [Argument("tensor", [self.buffer], undefined=self.rank != self.root)]

    def wanted(self, numbers: Numbers) -> Iterator[tuple[Tensor, Tensor]]:
        if self.rank == self.root:
            yield self.buffer, numbers.reduced(self.reduce_op, self.ranks, self.elements)


class Gather(Primitive):
    """Everybody's part, in the order of the ranks, on the root."""

    def allocate(self) -> None:
        self.part_of_mine = self.tensor()
        self.parts = self.tensors() if self.rank == self.root else None

    def fill(self, numbers: Numbers) -> None:
        self.part_of_mine.copy_(numbers.of(self.rank, self.elements))
        for part in self.parts or ():
            part.zero_()

    def call(self) -> None:
        dist.gather(self.part_of_mine, self.parts, dst=self.root)

    def spelled(self) -> str:
        parts = "parts, " if self.parts else ""
        return f"dist.gather(tensor, {parts}dst={self.root})"

    def arguments(self) -> list[Argument]:
        return [Argument("tensor", [self.part_of_mine]), Argument("parts", self.parts)]

    def wanted(self, numbers: Numbers) -> Iterator[tuple[Tensor, Tensor]]:
        yield self.part_of_mine, numbers.of(self.rank, self.elements)
        for rank, part in enumerate(self.parts or ()):
            yield part, numbers.of(rank, self.elements)


class Scatter(Primitive):
    """Of the root's parts, one to each rank, in their order."""

    def allocate(self) -> None:
        self.part_for_me = self.tensor()
        self.parts = self.tensors() if self.rank == self.root else None

    def fill(self, numbers: Numbers) -> None:
        self.part_for_me.zero_()
        whole = numbers.of(self.rank, self.ranks * self.elements)
        for number, part in enumerate(self.parts or ()):
            part.copy_(self.part(whole, number))

    def call(self) -> None:
        dist.scatter(self.part_for_me, self.parts, src=self.root)

    def spelled(self) -> str:
        parts = "parts, " if self.parts else ""
        return f"dist.scatter(tensor, {parts}src={self.root})"

    def arguments(self) -> list[Argument]:
        return [Argument("parts", self.parts), Argument("tensor", [self.part_for_me])]

    def wanted(self, numbers: Numbers) -> Iterator[tuple[Tensor, Tensor]]:
        roots = numbers.of(self.root, self.ranks * self.elements)
        yield self.part_for_me, self.part(roots, self.rank)
        for number, part in enumerate(self.parts or ()):
            yield part, self.part(roots, number)
