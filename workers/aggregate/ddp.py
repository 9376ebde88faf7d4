"""torch's DistributedDataParallel, unchanged: it broadcasts at construction, and averages while backward still runs.

DDP collects gradients into buckets as backward computes them. A full bucket is all_reduced while the next one fills.
At the first forward after an average, DDP also broadcasts rank 0's buffers. That forward then changes the buffers, so
they differ between ranks at the end.

    calls    1 per bucket, and 1 for the buffers
    sends    2 (n - 1) / n × S
    latency  hidden behind backward, except for the last bucket's 2 (n - 1) messages
"""

from contextlib import AbstractContextManager

from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from workers.aggregate.strategy import Strategy


class DDP(Strategy):
    """torch DDP."""

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
        """Size of a full bucket in MB (2**20 bytes), or None for torch's default (25 MB, the first bucket 1 MB)."""
        return self.trial.bucket_mb

    def share_buffers(self, model: nn.Module) -> None:
        """Does nothing: DDP's forward broadcasts the buffers."""

    def no_sync(self) -> AbstractContextManager[None]:
        return self.network.no_sync()

    def average(self, tensors: list[Tensor]) -> None:
        """Does nothing: when backward returns, every gradient already is the mean."""
