"""The primitives: collectives, which all ranks call, and point-to-point operations between two ranks.

With a root, that rank sends to or receives from all; otherwise, all do the same.
"""

from collections.abc import Iterator

import torch.distributed as dist
from torch import Tensor

from workers.aggregate.ring import exchange
from workers.aggregate.strategy import Strategy
from workers.primitives.primitive import Argument, Numbers, OneTensor, Primitive, Setting, Works, wait


class Broadcast(OneTensor):
    """Every rank gets the root's tensor."""

    def begin(self, *, async_op: bool = True) -> Works:
        return [dist.broadcast(self.buffer, src=self.root, async_op=async_op)]

    def call_text(self) -> str:
        return f"dist.broadcast(tensor, src={self.root})"

    def result(self, numbers: Numbers) -> Iterator[Tensor]:
        yield numbers.of(self.root, self.elements)


class Reduce(OneTensor):
    """The root gets the reduction of all ranks' tensors. The others' tensors are undefined afterwards."""

    def begin(self, *, async_op: bool = True) -> Works:
        return [dist.reduce(self.buffer, dst=self.root, op=self.op, async_op=async_op)]

    def call_text(self) -> str:
        return f"dist.reduce(tensor, dst={self.root}, {self.op_text})"

    def arguments(self) -> list[Argument]:
        return [Argument("tensor", [self.buffer], self.own, self.reduced if self.rank == self.root else None)]


class AllReduce(OneTensor):
    """Every rank gets the reduction of all ranks' tensors."""

    def begin(self, *, async_op: bool = True) -> Works:
        return [dist.all_reduce(self.buffer, op=self.op, async_op=async_op)]

    def call_text(self) -> str:
        return f"dist.all_reduce(tensor, {self.op_text})"


class OwnAndAllParts(Primitive):
    """A primitive with two arguments: a rank's own part, and a list of the parts of all ranks. One of them is
    output."""

    only_root_has_all = False

    def allocate(self) -> None:
        self.own_part = self.tensor()
        has_all = self.rank == self.root or not self.only_root_has_all
        self.parts = self.tensors() if has_all else []


class AllGather(OwnAndAllParts):
    """Every rank gets the parts of all ranks, in the order of the ranks."""

    def begin(self, *, async_op: bool = True) -> Works:
        return [dist.all_gather(self.parts, self.own_part, async_op=async_op)]

    def call_text(self) -> str:
        return "dist.all_gather(parts, tensor)"

    def arguments(self) -> list[Argument]:
        own_part = Argument("tensor", [self.own_part], before=self.own, after=self.own)
        return [own_part, Argument("parts", self.parts or None, after=self.gathered)]

    def gathered(self, numbers: Numbers) -> Iterator[Tensor]:
        """The numbers of all ranks."""
        for rank in range(self.ranks):
            yield numbers.of(rank, self.elements)


class Gather(AllGather):
    """The root gets the parts of all ranks, in the order of the ranks."""

    only_root_has_all = True

    def begin(self, *, async_op: bool = True) -> Works:
        return [dist.gather(self.own_part, self.parts or None, dst=self.root, async_op=async_op)]

    def call_text(self) -> str:
        return f"dist.gather(tensor, {'parts, ' if self.parts else ''}dst={self.root})"


class ReduceScatter(OwnAndAllParts):
    """Each rank gets its part of the reduction of all ranks' tensors: the first half of a ring all_reduce."""

    def begin(self, *, async_op: bool = True) -> Works:
        return [dist.reduce_scatter(self.own_part, self.parts, op=self.op, async_op=async_op)]

    def call_text(self) -> str:
        return f"dist.reduce_scatter(tensor, parts, {self.op_text})"

    def arguments(self) -> list[Argument]:
        parts = Argument("parts", self.parts or None, before=self.own_parts, after=self.own_parts)
        return [parts, Argument("tensor", [self.own_part], after=self.received)]

    def received(self, numbers: Numbers) -> Iterator[Tensor]:
        """The part that this rank receives."""
        yield self.own_part_of(numbers.reduced(self.reduce_op, self.ranks, self.ranks * self.elements))


class Scatter(ReduceScatter):
    """Each rank gets one of the root's parts, in the order of the ranks."""

    only_root_has_all = True

    def begin(self, *, async_op: bool = True) -> Works:
        return [dist.scatter(self.own_part, self.parts or None, src=self.root, async_op=async_op)]

    def call_text(self) -> str:
        return f"dist.scatter(tensor, {'parts, ' if self.parts else ''}src={self.root})"

    def received(self, numbers: Numbers) -> Iterator[Tensor]:
        yield self.own_part_of(numbers.of(self.root, self.ranks * self.elements))


class AllToAll(Primitive):
    """Every rank sends a part to each rank: a transposition of the parts."""

    def allocate(self) -> None:
        self.outgoing, self.incoming = self.tensors(), self.tensors()

    def begin(self, *, async_op: bool = True) -> Works:
        return [dist.all_to_all(self.incoming, self.outgoing, async_op=async_op)]

    def call_text(self) -> str:
        return "dist.all_to_all(incoming, outgoing)"

    def arguments(self) -> list[Argument]:
        outgoing = Argument("outgoing", self.outgoing, before=self.own_parts, after=self.own_parts)
        return [outgoing, Argument("incoming", self.incoming, after=self.received)]

    def received(self, numbers: Numbers) -> Iterator[Tensor]:
        """The parts that this rank receives."""
        for rank in range(self.ranks):  # one rank's numbers at a time: they may fill the memory
            yield self.own_part_of(numbers.of(rank, self.ranks * self.elements))


class Barrier(Primitive):
    """No rank continues before all have arrived."""

    def begin(self, *, async_op: bool = True) -> Works:
        return [dist.barrier(async_op=async_op)]

    def call_text(self) -> str:
        return "dist.barrier()"


class LocalSum(OneTensor):
    """A rank adds two tensors of its own: the cost of a reduction without communication."""

    def allocate(self) -> None:
        super().allocate()
        self.other = self.tensor()

    def call(self) -> None:
        self.buffer += self.other

    def call_text(self) -> str:
        return "tensor += other"

    def arguments(self) -> list[Argument]:
        return [*super().arguments(), Argument("other", [self.other], before=self.own, after=self.own)]

    def result(self, numbers: Numbers) -> Iterator[Tensor]:
        yield 2 * numbers.of(self.rank, self.elements)


class Composite(OneTensor):
    """A strategy's composition of primitives: it averages one tensor, as it would average a gradient."""

    def __init__(self, setting: Setting, strategy: Strategy) -> None:
        super().__init__(setting)
        self.strategy = strategy

    def call(self) -> None:
        self.strategy.average([self.buffer])

    def call_text(self) -> str:
        return "strategy.average([tensor])"

    def result(self, numbers: Numbers) -> Iterator[Tensor]:
        yield numbers.reduced("avg", self.ranks, self.elements)


class SendRecv(Primitive):
    """Ranks in pairs: each even rank sends to the next one. Both wait until the transfer is done."""

    transfers = 2  # a timed call is a ping-pong, there and back, so that neither rank can run ahead

    def allocate(self) -> None:
        self.sends = self.rank % 2 == 0
        self.partner = self.rank + 1 if self.sends else self.rank - 1
        self.buffer = self.tensor()

    @property
    def takes_part(self) -> bool:
        """Whether the rank has a partner: the last one of an odd number has none."""
        return self.partner < self.ranks

    def call(self) -> None:
        if self.takes_part:
            dist.send(self.buffer, dst=self.partner) if self.sends else dist.recv(self.buffer, src=self.partner)

    def timed_call(self) -> None:
        self.call()
        if self.takes_part:
            dist.recv(self.buffer, src=self.partner) if self.sends else dist.send(self.buffer, dst=self.partner)

    def call_text(self) -> str:
        if not self.takes_part:
            return "nothing: it has no partner"
        return f"dist.send(tensor, dst={self.partner})" if self.sends else f"dist.recv(tensor, src={self.partner})"

    def arguments(self) -> list[Argument]:
        return [Argument("tensor", [self.buffer] if self.takes_part else None, self.own, self.result)]

    def result(self, numbers: Numbers) -> Iterator[Tensor]:
        """The numbers of the rank that sends."""
        yield numbers.of(self.rank if self.sends else self.partner, self.elements)


class IsendIrecv(Primitive):
    """A ring: every rank sends to its right neighbor and receives from its left, as in one step of a ring all_reduce.

    With `send` and `recv`, all ranks might deadlock. So each rank starts both transfers, and then waits for both. Odd
    ranks start receiving first, since NCCL executes the transfers of a rank one after the other.
    """

    def allocate(self) -> None:
        self.left = (self.rank - 1) % self.ranks
        self.outgoing, self.incoming = self.tensor(), self.tensor()

    def begin(self, *, async_op: bool = True) -> Works:
        return exchange(self.outgoing, self.incoming, self.rank, self.ranks)

    def call(self) -> None:
        wait(self.begin())

    def call_text(self) -> str:
        right = (self.rank + 1) % self.ranks
        both = [f"dist.isend(outgoing, dst={right})", f"dist.irecv(incoming, src={self.left})"]
        return f"{', '.join(both[::-1] if self.rank % 2 else both)}; wait for both"

    def arguments(self) -> list[Argument]:
        outgoing = Argument("outgoing", [self.outgoing], before=self.own, after=self.own)
        return [outgoing, Argument("incoming", [self.incoming], after=self.received)]

    def received(self, numbers: Numbers) -> Iterator[Tensor]:
        """The left neighbor's numbers."""
        yield numbers.of(self.left, self.elements)
