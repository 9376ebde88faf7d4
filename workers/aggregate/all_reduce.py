"""One all_reduce per tensor: sum each tensor over the ranks, then divide by the number of ranks.

This is what tutorials teach first. It is slow for a model of many small tensors: each pays the latency of a collective.

    calls    T
    sends    2 (n - 1) / n × S
    latency  2 (n - 1) × T messages
"""

import torch.distributed as dist
from torch import Tensor

from workers.aggregate.strategy import Strategy


class AllReduceStrategy(Strategy):
    """One all_reduce per tensor, one after the other."""

    def average(self, tensors: list[Tensor]) -> None:
        for tensor in tensors:
            dist.all_reduce(tensor, op=self.op)
            self.divide(tensor)
