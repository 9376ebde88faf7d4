"""Reduce to rank 0, take the mean there, broadcast it: an all_reduce in two halves through one rank.

Two collectives a parameter where all_reduce needs one, and rank 0 is the root of every one.
"""

import torch.distributed as dist
from torch import nn

from workers.aggregate.initial import broadcast_from_rank_0


class ReduceBroadcast:
    def prepare(self, model: nn.Module) -> nn.Module:
        broadcast_from_rank_0(model)
        return model

    def average(self, model: nn.Module) -> None:
        ranks = dist.get_world_size()
        for parameter in model.parameters():
            if parameter.grad is not None:
                dist.reduce(parameter.grad, dst=0, op=dist.ReduceOp.SUM)
                if dist.get_rank() == 0:  # on the others reduce leaves garbage, until rank 0's mean replaces it
                    parameter.grad /= ranks
                dist.broadcast(parameter.grad, src=0)
