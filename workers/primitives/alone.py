"""Two that move nothing: the barrier, and what a rank does without the others."""

from collections.abc import Iterator

import torch.distributed as dist
from torch import Tensor

from workers.primitives.numbers import Numbers
from workers.primitives.primitive import Argument, Primitive
from workers.primitives.rooted import OneTensor


class Barrier(Primitive):
    """Nobody goes on before all have come."""

    def call(self) -> None:
        dist.barrier()

    def spelled(self) -> str:
        return "dist.barrier()"

    def arguments(self) -> list[Argument]:
        return []


class LocalSum(OneTensor):
    """A rank adds up two tensors of its own: what a reduction costs where nothing has to be sent."""

    def allocate(self) -> None:
        super().allocate()
        self.other = self.tensor()

    def fill(self, numbers: Numbers) -> None:
        super().fill(numbers)
        self.other.copy_(self.buffer)

    def call(self) -> None:
        self.buffer += self.other

    def spelled(self) -> str:
        return "tensor += other"

    def arguments(self) -> list[Argument]:
        return [Argument("tensor", [self.buffer]), Argument("other", [self.other])]

    def wanted(self, numbers: Numbers) -> Iterator[tuple[Tensor, Tensor]]:
        yield self.buffer, 2 * numbers.of(self.rank, self.elements)
