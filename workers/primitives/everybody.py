"""All give, and all get."""

from collections.abc import Iterator

import torch.distributed as dist
from torch import Tensor

from workers.primitives.numbers import Numbers
from workers.primitives.primitive import Argument, Primitive
from workers.primitives.rooted import OneTensor


class AllReduce(OneTensor):
    """All tensors as one, in everybody's."""

    def call(self) -> None:
        dist.all_reduce(self.buffer, op=self.op)

    def spelled(self) -> str:
        return f"dist.all_reduce(tensor, {self.op_text})"

    def arguments(self) -> list[Argument]:
        return [Argument("tensor", [self.buffer])]

    def wanted(self, numbers: Numbers) -> Iterator[tuple[Tensor, Tensor]]:
        yield self.buffer, numbers.reduced(self.reduce_op, self.ranks, self.elements)


class AllGather(Primitive):
    """Everybody's part, in the order of the ranks, on all."""

    def allocate(self) -> None:
        self.part_of_mine = self.tensor()
        self.parts = self.tensors()

    def fill(self, numbers: Numbers) -> None:
        self.part_of_mine.copy_(numbers.of(self.rank, self.elements))
        for part in self.parts:
            part.zero_()

    def call(self) -> None:
        dist.all_gather(self.parts, self.part_of_mine)

    def spelled(self) -> str:
        return "dist.all_gather(parts, tensor)"

    def arguments(self) -> list[Argument]:
        return [Argument("tensor", [self.part_of_mine]), Argument("parts", self.parts)]

    def wanted(self, numbers: Numbers) -> Iterator[tuple[Tensor, Tensor]]:
        yield self.part_of_mine, numbers.of(self.rank, self.elements)
        for rank, part in enumerate(self.parts):
            yield part, numbers.of(rank, self.elements)


class ReduceScatter(Primitive):
    """All tensors as one, of which each rank gets its part: the first half of a ring all_reduce."""

    def allocate(self) -> None:
        self.parts = self.tensors()
        self.part_for_me = self.tensor()

    def fill(self, numbers: Numbers) -> None:
        whole = numbers.of(self.rank, self.ranks * self.elements)
        for number, part in enumerate(self.parts):
            part.copy_(self.part(whole, number))
        self.part_for_me.zero_()

    def call(self) -> None:
        dist.reduce_scatter(self.part_for_me, self.parts, op=self.op)

    def spelled(self) -> str:
        return f"dist.reduce_scatter(tensor, parts, {self.op_text})"

    def arguments(self) -> list[Argument]:
        return [Argument("parts", self.parts), Argument("tensor", [self.part_for_me])]

    def wanted(self, numbers: Numbers) -> Iterator[tuple[Tensor, Tensor]]:
        whole = numbers.reduced(self.reduce_op, self.ranks, self.ranks * self.elements)
        yield self.part_for_me, self.part(whole, self.rank)
        mine = numbers.of(self.rank, self.ranks * self.elements)
        for number, part in enumerate(self.parts):
            yield part, self.part(mine, number)


class AllToAll(Primitive):
    """Every rank has a part for each: row and column change places."""

    def allocate(self) -> None:
        self.outgoing, self.incoming = self.tensors(), self.tensors()

    def fill(self, numbers: Numbers) -> None:
        whole = numbers.of(self.rank, self.ranks * self.elements)
        for number, part in enumerate(self.outgoing):
            part.copy_(self.part(whole, number))
        for part in self.incoming:
            part.zero_()

    def call(self) -> None:
        dist.all_to_all(self.incoming, self.outgoing)

    def spelled(self) -> str:
        return "dist.all_to_all(incoming, outgoing)"

    def arguments(self) -> list[Argument]:
        return [Argument("outgoing", self.outgoing), Argument("incoming", self.incoming)]

    def wanted(self, numbers: Numbers) -> Iterator[tuple[Tensor, Tensor]]:
        mine = numbers.of(self.rank, self.ranks * self.elements)
        for number, part in enumerate(self.outgoing):
            yield part, self.part(mine, number)
        for rank, part in enumerate(self.incoming):
            yield part, self.part(numbers.of(rank, self.ranks * self.elements), self.rank)
