"""The first agreement, before any step: every rank takes rank 0's parameters and buffers."""

import torch.distributed as dist
from torch import nn


def broadcast_from_rank_0(model: nn.Module) -> None:
    """Without it, ranks that start apart stay apart: averaged gradients move them all by the same amount."""
    for tensor in model.state_dict().values():
        dist.broadcast(tensor, src=0)
