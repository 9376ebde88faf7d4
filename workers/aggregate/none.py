"""No aggregation: the ranks start equal, and each trains alone. This is the control: the replicas drift apart.

calls    0
sends    0
latency  0
"""

from torch import Tensor, nn

from workers.aggregate.strategy import Strategy


class NoAggregation(Strategy):
    """Averages nothing."""

    def prepare(self, model: nn.Module) -> nn.Module:
        has_group = self.trial.strategy is not None
        return super().prepare(model) if has_group else model

    def share_buffers(self, model: nn.Module) -> None:
        """Does nothing: each rank keeps its own buffers."""

    def average(self, tensors: list[Tensor]) -> None:
        """Does nothing: each rank keeps its own tensors."""
