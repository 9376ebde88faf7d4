"""Rank 0 as a parameter server: it gathers everybody's tensor, takes the mean, and scatters it to all.

Rank 0 receives and sends as much as all others together, so it is the bottleneck: its traffic grows with the ranks.
"""

import torch
import torch.distributed as dist
from torch import Tensor

from workers.aggregate.strategy import Strategy


class GatherScatter(Strategy):
    def average(self, tensors: list[Tensor]) -> None:
        ranks = dist.get_world_size()
        for tensor in tensors:
            if dist.get_rank() == 0:
                everybodys = [torch.empty_like(tensor) for _ in range(ranks)]
                dist.gather(tensor, everybodys, dst=0)
                mean = torch.empty_like(tensor)  # lies in memory as theirs do, which is how it is scattered
                torch.mean(torch.stack(everybodys), dim=0, out=mean)
                dist.scatter(tensor, [mean] * ranks, src=0)
            else:
                dist.gather(tensor, dst=0)
                dist.scatter(tensor, src=0)
