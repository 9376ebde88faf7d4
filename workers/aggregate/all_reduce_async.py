"""One all_reduce a tensor, all of them issued before the first is waited for.

It sends as much as `all_reduce`. But while one tensor is being reduced, the next ones are, too: latencies overlap.

    calls    T
    sends    2 (n - 1) / n × S
    latency  at least 2 (n - 1) messages, if all tensors overlap
"""

import torch.distributed as dist
from torch import Tensor

from workers.aggregate.strategy import Strategy


class AllReduceAsync(Strategy):
    """An all_reduce for each tensor, all of them in the background at once."""

    def average(self, tensors: list[Tensor]) -> None:
        works = [dist.all_reduce(tensor, op=self.op, async_op=True) for tensor in tensors]
        for tensor, work in zip(tensors, works, strict=True):
            work.wait()
            self.divide(tensor)
