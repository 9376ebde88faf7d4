"""An all_reduce in its two halves: reduce_scatter, after which each rank has the sum of its own part of the tensor;
all_gather, after which each has all parts.

What a ring all_reduce does inside, made visible. Sharded training (ZeRO, FSDP) stops half-way: each rank updates only
its part of the parameters.
"""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from workers.aggregate.strategy import Strategy


class ReduceScatterAllGather(Strategy):
    def average(self, tensors: list[Tensor]) -> None:
        ranks = dist.get_world_size()
        for tensor in tensors:
            flat = tensor.flatten()
            parts = list(F.pad(flat, (0, -len(flat) % ranks)).chunk(ranks))  # zeros at the end make them equally long
            mine = torch.empty_like(parts[0])
            dist.reduce_scatter(mine, parts, op=self.op)
            self.divide(mine)
            dist.all_gather(parts, mine)
            tensor.copy_(torch.cat(parts)[: len(flat)].view_as(tensor))
