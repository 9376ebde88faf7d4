"""One all_reduce a step: all tensors are divided by the number of ranks, into one flat buffer, and that is summed.

The latency of a collective is paid once. Nothing is copied back: from then on the gradients are views of the buffer.
But nothing overlaps: the all_reduce starts when backward is over.

    calls    1 for each dtype
    sends    2 (n - 1) / n × S
    latency  2 (n - 1) messages
"""

import torch
import torch.distributed as dist
from torch import Tensor

from ddptui.config.trial import Trial
from workers.aggregate.buffer import group_by_dtype, move_into_buffer
from workers.aggregate.strategy import Strategy


class Flat(Strategy):
    """One all_reduce for all tensors of a dtype."""

    def __init__(self, trial: Trial) -> None:
        super().__init__(trial)
        self.buffers: dict[torch.dtype, Tensor] = {}  # kept from step to step

    def average(self, tensors: list[Tensor]) -> None:
        for group in group_by_dtype(tensors):
            dtype = group[0].dtype
            buffer = self.buffers[dtype] = move_into_buffer(group, self.buffers.get(dtype), self.divisor)
            dist.all_reduce(buffer, op=self.op)
