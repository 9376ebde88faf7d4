"""One all_reduce a step: all tensors lie in one flat buffer, and that is summed and divided.

The latency of a collective is paid once. Nothing is copied either: the gradients are laid out once, as views of the
buffer, and backward adds to them where they lie. Nothing overlaps: the all_reduce starts when backward is over.
"""

import torch.distributed as dist
from torch import Tensor

from workers.aggregate.buffer import by_dtype, lay_out
from workers.aggregate.strategy import Strategy


class Flat(Strategy):
    keeps_gradients = True
    tensors: list[Tensor] = []  # noqa: RUF012  those that lie in the buffers
    buffers: list[Tensor] = []  # noqa: RUF012  one a dtype

    def average(self, tensors: list[Tensor]) -> None:
        if not same(tensors, self.tensors):  # in the first step, and whenever other parameters take part
            self.tensors, self.buffers = tensors, [lay_out(alike) for alike in by_dtype(tensors)]
        for buffer in self.buffers:
            dist.all_reduce(buffer, op=self.op)
            self.divide(buffer)


def same(some: list[Tensor], others: list[Tensor]) -> bool:
    return len(some) == len(others) and all(one is other for one, other in zip(some, others, strict=True))
