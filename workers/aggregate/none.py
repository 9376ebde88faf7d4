"""No aggregation: the ranks start equal, and every one goes its own way. A control: its replicas drift apart."""

import torch.distributed as dist
from torch import nn

from workers.aggregate.initial import broadcast_from_rank_0


class NoAggregation:
    def prepare(self, model: nn.Module) -> nn.Module:
        if dist.is_initialized():
            broadcast_from_rank_0(model)
        return model

    def average(self, model: nn.Module) -> None:
        """Nobody asks the others."""
