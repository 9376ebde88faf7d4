"""What the training loop asks of every strategy.

Each strategy says in its file what an average costs, for n ranks and T tensors of S bytes together:

    calls    of torch.distributed, on each rank
    sends    bytes that leave a rank. What a collective sends depends on the backend's algorithm; for all_reduce it is
             the ring of Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations"
             (2009), which NCCL and gloo use for large tensors.
    latency  messages that must follow each other; each costs a latency. The model is that of Thakur, Rabenseifner and
             Gropp, "Optimization of collective communication operations in MPICH" (2005).
"""

from contextlib import AbstractContextManager, nullcontext

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ddptui.config.trial import Trial
from workers.aggregate.buffer import group_by_dtype


class Strategy:
    """How ranks agree on gradients or parameters. A new strategy defines `average`; the rest suits most of them."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self.op = dist.ReduceOp.AVG if trial.reduction == "avg" else dist.ReduceOp.SUM

    def prepare(self, model: nn.Module) -> nn.Module:
        """Before the first step: make the ranks equal. Returns the network to call."""
        broadcast_model(model)
        return model

    def share_buffers(self, model: nn.Module) -> None:
        """Before the first forward of a window: every rank takes rank 0's buffers, as under torch DDP."""
        broadcast_flat(list(model.buffers()))

    def no_sync(self) -> AbstractContextManager[None]:
        """The context for a forward and backward that only add to the gradients: nothing is sent."""
        return nullcontext()

    def average(self, tensors: list[Tensor]) -> None:
        """Replace these tensors by their means over the ranks, in place: the model's gradients or parameters, in the
        model's order, the same on all ranks."""
        raise NotImplementedError

    @property
    def divisor(self) -> int:
        """What to divide by before the sum: the number of ranks, or 1 where the collective takes the mean itself."""
        return dist.get_world_size() if self.op == dist.ReduceOp.SUM else 1

    def divide(self, tensor: Tensor) -> None:
        """Turn the sum over the ranks into the mean, unless the collective took the mean itself (ReduceOp.AVG)."""
        if self.op == dist.ReduceOp.SUM:
            tensor /= dist.get_world_size()


def gradients_of(model: nn.Module) -> list[Tensor]:
    """The gradients of the parameters that have one, in the model's order."""
    return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]


@torch.no_grad()
def broadcast_model(model: nn.Module) -> None:
    """Give every rank the parameters and buffers of rank 0."""
    # Ranks that start apart would stay apart: averaged gradients move all of them by the same amount.
    for tensor in [*model.parameters(), *model.buffers()]:
        dist.broadcast(tensor, src=0)


@torch.no_grad()
def broadcast_flat(tensors: list[Tensor]) -> None:
    """Give every rank these tensors of rank 0."""
    # In one broadcast a dtype: BatchNorm has three small buffers a layer, and each broadcast costs its latency.
    for group in group_by_dtype(tensors):
        flat = torch.cat([tensor.flatten() for tensor in group])
        dist.broadcast(flat, src=0)
        for tensor, part in zip(group, flat.split([tensor.numel() for tensor in group]), strict=True):
            tensor.copy_(part.view_as(tensor))
