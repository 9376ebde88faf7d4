"""One all_reduce per step: all tensors, divided by the number of ranks, go into one flat buffer, which is summed.

Each step pays the latency of one collective only. Nothing is copied back: from the first step on, the gradients are
views of the buffer. But nothing overlaps: the all_reduce starts when backward is over.

    calls    1 per dtype
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
