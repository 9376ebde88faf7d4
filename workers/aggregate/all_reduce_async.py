"""One all_reduce a tensor, all of them issued before the first is waited for.

As much is sent as by `all_reduce`, but while one tensor is under way the next ones are, too: latencies overlap.
"""

import torch.distributed as dist
from torch import Tensor

from workers.aggregate.strategy import Strategy


class AllReduceAsync(Strategy):
    def average(self, tensors: list[Tensor]) -> None:
        works = [dist.all_reduce(tensor, op=self.op, async_op=True) for tensor in tensors]
        for tensor, work in zip(tensors, works, strict=True):
            work.wait()
            self.divide(tensor)
