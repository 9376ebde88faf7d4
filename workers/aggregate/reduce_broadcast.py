"""Reduce to rank 0, compute the mean there, and broadcast it: an all_reduce in two halves, through one rank.

It needs two collectives per tensor where all_reduce needs one, and rank 0 is the root of both.

    calls    2 T
    sends    S from every rank except rank 0, for the reduce; together the ranks send as much again in the broadcast
    latency  2 log2(n) × T messages, over binomial trees
"""

import torch.distributed as dist
from torch import Tensor

from workers.aggregate.strategy import Strategy


class ReduceBroadcast(Strategy):
    """Per tensor, a reduce to rank 0 and a broadcast from rank 0."""

    def average(self, tensors: list[Tensor]) -> None:
        for tensor in tensors:
            dist.reduce(tensor, dst=0, op=self.op)
            if dist.get_rank() == 0:  # on other ranks, reduce leaves garbage until the broadcast
                self.divide(tensor)
            dist.broadcast(tensor, src=0)
