"""torch's DistributedDataParallel, untouched: it broadcasts at construction, and averages while backward still runs.

Gradients are collected into buckets as backward fills them; a full bucket is all_reduced while the next one fills.
At each forward it also broadcasts rank 0's buffers; the forward then changes them, so at the end they differ again.
"""

from torch import nn
from torch.nn.parallel import DistributedDataParallel


class DDP:
    def prepare(self, model: nn.Module) -> nn.Module:
        device = next(model.parameters()).device
        return DistributedDataParallel(model, device_ids=[device.index] if device.type == "cuda" else None)

    def average(self, model: nn.Module) -> None:
        """Done already: when backward returns, every gradient is the mean."""
