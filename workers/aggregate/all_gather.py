"""Every rank gathers the tensors of all ranks, and computes the mean itself.

No rank is special, and the collective does no arithmetic. But each rank receives, stores and adds up n - 1 copies of
the tensor; in a ring all_reduce it receives only 2 (n - 1) / n copies.

    calls    T
    sends    (n - 1) × S, over a ring
    latency  (n - 1) × T messages
"""

import torch
import torch.distributed as dist
from torch import Tensor

from workers.aggregate.strategy import Strategy


class AllGatherStrategy(Strategy):
    """One all_gather per tensor; each rank computes the mean."""

    def average(self, tensors: list[Tensor]) -> None:
        ranks = dist.get_world_size()
        for tensor in tensors:
            gathered = [torch.empty_like(tensor) for _ in range(ranks)]
            dist.all_gather(gathered, tensor)
            tensor.zero_()
            for part in gathered:  # in the same order on all ranks, so that they get the same bits
                tensor += part
            tensor /= ranks
