"""The interface that the training loop expects of every strategy.

Each strategy's file states what averaging the gradients once costs, for n ranks and T tensors of S bytes in total:

    calls    calls of torch.distributed on each rank
    sends    bytes that leave a rank. They depend on the backend's algorithm; for all_reduce we assume the ring of
             Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations" (2009), which
             NCCL and gloo use for large tensors.
    latency  number of messages that must be sent one after another; each adds the network's latency. The model is that
             of Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH" (2005).
"""

from contextlib import AbstractContextManager, nullcontext

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ddptui.config.trial import Trial
from workers.aggregate.buffer import group_by_dtype


class Strategy:
    """Averages gradients or parameters over the ranks. A new strategy defines `average`; the other methods suit
    most."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self.op = dist.ReduceOp.AVG if trial.reduction == "avg" else dist.ReduceOp.SUM

    def prepare(self, model: nn.Module) -> nn.Module:
        """Make the ranks' models equal before the first step. Returns the network to call, which may wrap the model."""
        broadcast_model(model)
        return model

    def share_buffers(self, model: nn.Module) -> None:
        """Copy rank 0's buffers to every rank before the first forward of an accumulation window, as torch DDP does."""
        broadcast_flat(list(model.buffers()))

    def no_sync(self) -> AbstractContextManager[None]:
        """A context for a forward and backward that only accumulate gradients and send nothing."""
        return nullcontext()

    def average(self, tensors: list[Tensor]) -> None:
        """Replace these tensors with their means over the ranks, in place. They are the model's gradients or parameters
        in the model's order, which is the same on all ranks."""
        raise NotImplementedError

    @property
    def divisor(self) -> int:
        """The divisor to apply before the sum: the number of ranks, or 1 if the collective averages (ReduceOp.AVG)."""
        return dist.get_world_size() if self.op == dist.ReduceOp.SUM else 1

    def divide(self, tensor: Tensor) -> None:
        """Turn the sum over the ranks into the mean, unless the collective has averaged (ReduceOp.AVG)."""
        if self.op == dist.ReduceOp.SUM:
            tensor /= dist.get_world_size()


def gradients_of(model: nn.Module) -> list[Tensor]:
    """The model's gradients, in the order of its parameters; parameters without a gradient are skipped."""
    return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]


@torch.no_grad()
def broadcast_model(model: nn.Module) -> None:
    """Copy rank 0's parameters and buffers to every rank."""
    # Ranks that start with different parameters would keep the difference: averaged gradients move all ranks equally.
    for tensor in [*model.parameters(), *model.buffers()]:
        dist.broadcast(tensor, src=0)


@torch.no_grad()
def broadcast_flat(tensors: list[Tensor]) -> None:
    """Copy these tensors of rank 0 to every rank."""
    # One broadcast per dtype: BatchNorm has three small buffers per layer, and each broadcast would cost a latency.
    for group in group_by_dtype(tensors):
        flat = torch.cat([tensor.flatten() for tensor in group])
        dist.broadcast(flat, src=0)
        for tensor, part in zip(group, flat.split([tensor.numel() for tensor in group]), strict=True):
            tensor.copy_(part.view_as(tensor))
