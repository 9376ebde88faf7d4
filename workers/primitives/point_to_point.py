"""Point-to-point operations between two ranks: one calls send, the other receive."""

from collections.abc import Iterator

import torch.distributed as dist
from torch import Tensor

from workers.aggregate.ring import exchange
from workers.primitives.numbers import Numbers
from workers.primitives.primitive import Argument, Primitive, Works, wait


class SendRecv(Primitive):
    """Ranks in pairs: each even rank sends to the next one. Both wait until the transfer is done."""

    transfers = 2  # a timed call is a ping-pong, there and back, so that neither rank can run ahead

    def allocate(self) -> None:
        self.sends = self.rank % 2 == 0
        self.partner = self.rank + 1 if self.sends else self.rank - 1
        self.buffer = self.tensor()

    def fill(self, numbers: Numbers) -> None:
        self.buffer.copy_(numbers.of(self.rank, self.elements))

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
        return [Argument("tensor", [self.buffer] if self.takes_part else None)]

    def expected(self, numbers: Numbers) -> Iterator[tuple[Tensor, Tensor]]:
        if self.takes_part:
            yield self.buffer, numbers.of(self.rank if self.sends else self.partner, self.elements)


class IsendIrecv(Primitive):
    """A ring: every rank sends to its right neighbor and receives from its left, as in one step of a ring all_reduce.

    With `send` and `recv`, all ranks might deadlock. So each rank starts both transfers, and then waits for both. Odd
    ranks start receiving first, since NCCL executes the transfers of a rank one after the other.
    """

    def allocate(self) -> None:
        self.left = (self.rank - 1) % self.ranks
        self.outgoing, self.incoming = self.tensor(), self.tensor()

    def fill(self, numbers: Numbers) -> None:
        self.outgoing.copy_(numbers.of(self.rank, self.elements))
        self.incoming.zero_()

    def begin(self, *, async_op: bool = True) -> Works:
        return exchange(self.outgoing, self.incoming, self.rank, self.ranks)

    def call(self) -> None:
        wait(self.begin())

    def call_text(self) -> str:
        right = (self.rank + 1) % self.ranks
        both = [f"dist.isend(outgoing, dst={right})", f"dist.irecv(incoming, src={self.left})"]
        return f"{', '.join(both[::-1] if self.rank % 2 else both)}; wait for both"

    def arguments(self) -> list[Argument]:
        return [Argument("outgoing", [self.outgoing]), Argument("incoming", [self.incoming])]

    def expected(self, numbers: Numbers) -> Iterator[tuple[Tensor, Tensor]]:
        yield self.outgoing, numbers.of(self.rank, self.elements)
        yield self.incoming, numbers.of(self.left, self.elements)
