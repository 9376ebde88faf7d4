"""Every rank takes rank 0's tensors: once before the first step, and for buffers again and again."""

import torch
import torch.distributed as dist
from torch import Tensor, nn

from workers.aggregate.buffer import group_by_dtype


@torch.no_grad()
def broadcast_model(model: nn.Module) -> None:
    """Without it, ranks that start apart stay apart: averaged gradients move them all by the same amount."""
    for tensor in [*model.parameters(), *model.buffers()]:
        dist.broadcast(tensor, src=0)


@torch.no_grad()
def broadcast_flat(tensors: list[Tensor]) -> None:
    """One broadcast a dtype: BatchNorm has three small buffers a layer, and each broadcast has its latency."""
    for alike in group_by_dtype(tensors):
        together = torch.cat([tensor.flatten() for tensor in alike])
        dist.broadcast(together, src=0)
        for tensor, part in zip(alike, together.split([tensor.numel() for tensor in alike]), strict=True):
            tensor.copy_(part.view_as(tensor))
