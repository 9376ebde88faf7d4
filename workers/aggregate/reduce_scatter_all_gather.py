"""An all_reduce in its two halves. After the reduce_scatter, each rank has the sum of its own part of the tensor; after
the all_gather, each rank has all parts.

A ring all_reduce does the same internally. Sharded training (ZeRO, FSDP) stops half-way: each rank updates only its
part of the parameters.

    calls    2 T
    sends    2 (n - 1) / n × S
    latency  2 (n - 1) × T messages
"""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from workers.aggregate.strategy import Strategy


class ReduceScatterAllGather(Strategy):
    """Per tensor, a reduce_scatter and an all_gather."""

    def average(self, tensors: list[Tensor]) -> None:
        ranks = dist.get_world_size()
        for tensor in tensors:
            flat = tensor.flatten()
            parts = list(F.pad(flat, (0, -len(flat) % ranks)).chunk(ranks))  # zeros at the end make parts equal in size
            part = torch.empty_like(parts[0])
            dist.reduce_scatter(part, parts, op=self.op)
            self.divide(part)
            dist.all_gather(parts, part)
            tensor.copy_(torch.cat(parts)[: len(flat)].view_as(tensor))
