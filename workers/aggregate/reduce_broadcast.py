"""Reduce to rank 0, take the mean there, broadcast it: an all_reduce in two halves through one rank.

Two collectives a tensor where all_reduce needs one, and rank 0 is the root of every one.
"""

import torch.distributed as dist
from torch import Tensor

from workers.aggregate.strategy import Strategy


class ReduceBroadcast(Strategy):
    def average(self, tensors: list[Tensor]) -> None:
        for tensor in tensors:
            dist.reduce(tensor, dst=0, op=self.op)
            if dist.get_rank() == 0:  # on the others reduce leaves garbage, until rank 0's mean replaces it
                self.divide(tensor)
            dist.broadcast(tensor, src=0)
