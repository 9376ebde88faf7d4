"""Rank 0 as a parameter server: it gathers every rank's tensor, computes the mean, and scatters it to all ranks.

Rank 0 receives and sends as much as all others together. It is the bottleneck, and its traffic grows with the world
size.

    calls    2 T
    sends    (n - 1) × S from rank 0, S from every other rank
    latency  2 × T messages, but rank 0 handles (n - 1) of them at a time
"""

import torch
import torch.distributed as dist
from torch import Tensor

from workers.aggregate.strategy import Strategy


class GatherScatter(Strategy):
    """Per tensor, a gather to rank 0 and a scatter from rank 0."""

    def average(self, tensors: list[Tensor]) -> None:
        ranks = dist.get_world_size()
        for tensor in tensors:
            if dist.get_rank() == 0:
                gathered = [torch.empty_like(tensor) for _ in range(ranks)]
                dist.gather(tensor, gathered, dst=0)
                mean = torch.empty_like(tensor)  # has the strides of the tensors that receive it
                torch.mean(torch.stack(gathered), dim=0, out=mean)
                dist.scatter(tensor, [mean] * ranks, src=0)
            else:
                dist.gather(tensor, dst=0)
                dist.scatter(tensor, src=0)
