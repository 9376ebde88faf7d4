"""Every rank gathers everybody's tensor, and takes the mean for itself.

No rank is special, and no arithmetic is left to the collective. But with n ranks, each receives n - 1 copies of the
tensor, keeps and adds them up, where a ring all_reduce receives 2 (n - 1) / n.
"""

import torch
import torch.distributed as dist
from torch import Tensor

from workers.aggregate.strategy import Strategy


class AllGather(Strategy):
    def average(self, tensors: list[Tensor]) -> None:
        ranks = dist.get_world_size()
        for tensor in tensors:
            everybodys = [torch.empty_like(tensor) for _ in range(ranks)]
            dist.all_gather(everybodys, tensor)
            tensor.zero_()
            for part in everybodys:  # in the same order on all ranks, so that they get the same bits
                tensor += part
            tensor /= ranks
