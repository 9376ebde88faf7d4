"""What the training loop asks of every strategy."""

from contextlib import AbstractContextManager, nullcontext

import torch.distributed as dist
from torch import Tensor, nn

from ddptui.config.trial import Trial
from workers.aggregate.initial import broadcast_flat, broadcast_model


def gradients_of(model: nn.Module) -> list[Tensor]:
    """Of the parameters that have one, in the model's order."""
    return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]


class Strategy:
    """How ranks agree. A strategy of one's own says how to `average`; the rest is the same for most."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self.op = dist.ReduceOp.AVG if trial.reduction == "avg" else dist.ReduceOp.SUM

    def prepare(self, model: nn.Module) -> nn.Module:
        """Before the first step: make the ranks equal. Returns the network to call."""
        broadcast_model(model)
        return model

    def share_buffers(self, model: nn.Module) -> None:
        """Before the first forward of a round: every rank takes rank 0's buffers, as under torch DDP. The forward then
        changes them again, on each rank in its own way."""
        broadcast_flat(list(model.buffers()))

    def no_sync(self) -> AbstractContextManager[None]:
        """Around a forward and backward that shall only add to the gradients: nothing is sent."""
        return nullcontext()

    def average(self, tensors: list[Tensor]) -> None:
        """Leave in these tensors (the model's gradients or its parameters, in its order) their mean over the ranks."""
        raise NotImplementedError

    @property
    def divisor(self) -> int:
        """What to divide by before the sum, for who does that: the number of ranks, or 1 where the collective does."""
        return dist.get_world_size() if self.op == dist.ReduceOp.SUM else 1

    def divide(self, tensor: Tensor) -> None:
        """From the sum over the ranks to the mean, unless the collective took the mean itself (ReduceOp.AVG)."""
        if self.op == dist.ReduceOp.SUM:
            tensor /= dist.get_world_size()
