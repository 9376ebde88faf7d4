"""One all_reduce a parameter: sum every gradient over the ranks, then divide by their number.

The way it is first taught. Each call pays the latency of a collective, so a model of many small tensors is slow.
"""

import torch.distributed as dist
from torch import nn

from workers.aggregate.initial import broadcast_from_rank_0


class AllReduce:
    def prepare(self, model: nn.Module) -> nn.Module:
        broadcast_from_rank_0(model)
        return model

    def average(self, model: nn.Module) -> None:
        ranks = dist.get_world_size()
        for parameter in model.parameters():
            if parameter.grad is not None:
                dist.all_reduce(parameter.grad, op=dist.ReduceOp.SUM)
                parameter.grad /= ranks
