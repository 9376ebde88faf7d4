"""One all_reduce a tensor: sum each over the ranks, then divide by their number.

The way it is first taught. Each call pays the latency of a collective, so a model of many small tensors is slow.
"""

import torch.distributed as dist
from torch import Tensor

from workers.aggregate.strategy import Strategy


class AllReduce(Strategy):
    def average(self, tensors: list[Tensor]) -> None:
        for tensor in tensors:
            dist.all_reduce(tensor, op=self.op)
            self.divide(tensor)
