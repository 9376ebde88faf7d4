"""No aggregation: the ranks start equal, and every one goes its own way. A control: its replicas drift apart."""

import torch.distributed as dist
from torch import Tensor, nn

from workers.aggregate.strategy import Strategy


class NoAggregation(Strategy):
    def prepare(self, model: nn.Module) -> nn.Module:
        return super().prepare(model) if dist.is_initialized() else model

    def share_buffers(self, model: nn.Module) -> None:
        """Nobody asks the others."""

    def average(self, tensors: list[Tensor]) -> None:
        """Nobody asks the others."""
