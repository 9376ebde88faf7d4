"""One all_reduce a tensor: sum each tensor over the ranks, then divide by their number.

The way it is taught first. A model of many small tensors is slow: each pays the latency of a collective.

    calls    T
    sends    2 (n - 1) / n × S
    latency  2 (n - 1) × T messages
"""

import torch.distributed as dist
from torch import Tensor

from workers.aggregate.strategy import Strategy


class AllReduce(Strategy):
    """An all_reduce for each tensor, one after the other."""

    def average(self, tensors: list[Tensor]) -> None:
        for tensor in tensors:
            dist.all_reduce(tensor, op=self.op)
            self.divide(tensor)
