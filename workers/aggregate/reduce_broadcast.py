"""Reduce to rank 0, take the mean there, broadcast it: an all_reduce in two halves through one rank.

It makes two collectives a tensor where all_reduce needs one, and rank 0 is the root of both.

    calls    2 T
    sends    S from every rank but rank 0, to be reduced; together the ranks send as much again in the broadcast
    latency  2 log2(n) × T messages, over binomial trees
"""

import torch.distributed as dist
from torch import Tensor

from workers.aggregate.strategy import Strategy


class ReduceBroadcast(Strategy):
    """A reduce to rank 0 and a broadcast from it, for each tensor."""

    def average(self, tensors: list[Tensor]) -> None:
        for tensor in tensors:
            dist.reduce(tensor, dst=0, op=self.op)
            if dist.get_rank() == 0:  # on the others reduce leaves garbage, until rank 0's mean replaces it
                self.divide(tensor)
            dist.broadcast(tensor, src=0)
