"""One all_reduce per tensor. Each rank issues all of them before it waits for the first.

It sends as much as `all_reduce`. But several tensors are reduced at the same time, so their latencies overlap.

    calls    T
    sends    2 (n - 1) / n × S
    latency  at least 2 (n - 1) messages, if all tensors overlap
"""

import torch.distributed as dist
from torch import Tensor

from workers.aggregate.strategy import Strategy


class AllReduceAsync(Strategy):
    """One asynchronous all_reduce per tensor, all in flight at once."""

    def average(self, tensors: list[Tensor]) -> None:
        works = [dist.all_reduce(tensor, op=self.op, async_op=True) for tensor in tensors]
        for tensor, work in zip(tensors, works, strict=True):
            work.wait()
            self.divide(tensor)
