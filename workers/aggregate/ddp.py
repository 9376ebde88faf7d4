"""torch's DistributedDataParallel, untouched: it broadcasts at construction, and averages while backward still runs.

Gradients are collected into buckets as backward fills them; a full bucket is all_reduced while the next one fills.
At the first forward after an average it also broadcasts rank 0's buffers; the forward then changes them, so at the end
they differ again.
"""

from contextlib import AbstractContextManager

from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from workers.aggregate.strategy import Strategy


class DDP(Strategy):
    def prepare(self, model: nn.Module) -> nn.Module:
        device = next(model.parameters()).device
        self.network = DistributedDataParallel(
            model,
            device_ids=[device.index] if device.type == "cuda" else None,
            bucket_cap_mb=self.bucket_mb(model),
            gradient_as_bucket_view=self.trial.gradient_as_bucket_view,
            static_graph=self.trial.static_graph,
        )
        return self.network

    def bucket_mb(self, model: nn.Module) -> float | None:
        """When a bucket is full. None: torch decides (25 MB, and 1 MB for the first)."""
        return self.trial.bucket_mb

    def share_buffers(self, model: nn.Module) -> None:
        """DDP's forward does."""

    def no_sync(self) -> AbstractContextManager[None]:
        return self.network.no_sync()

    def average(self, tensors: list[Tensor]) -> None:
        """Done already: when backward returns, every gradient is the mean."""
