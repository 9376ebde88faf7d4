"""No aggregation: the ranks start equal, and every one goes its own way. A control: its replicas drift apart."""

from torch import Tensor, nn

from workers.aggregate.strategy import Strategy


class NoAggregation(Strategy):
    def prepare(self, model: nn.Module) -> nn.Module:
        alone = self.trial.strategy is None  # one process, no group
        return model if alone else super().prepare(model)

    def share_buffers(self, model: nn.Module) -> None:
        """Nobody asks the others."""

    def average(self, tensors: list[Tensor]) -> None:
        """Nobody asks the others."""
