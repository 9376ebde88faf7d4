"""Many tensors in one long buffer, so that one collective serves them all."""

import torch
from torch import Tensor


def by_dtype(tensors: list[Tensor]) -> list[list[Tensor]]:
    """The tensors in groups of one dtype, since a buffer has only one; in their order."""
    groups: dict[torch.dtype, list[Tensor]] = {}
    for tensor in tensors:
        groups.setdefault(tensor.dtype, []).append(tensor)
    return list(groups.values())


def lay_out(tensors: list[Tensor]) -> Tensor:
    """Move tensors of one dtype into a buffer, one after the other: each becomes a view of its part."""
    buffer = torch.cat([tensor.detach().flatten() for tensor in tensors])
    for tensor, part in zip(tensors, buffer.split([tensor.numel() for tensor in tensors]), strict=True):
        tensor.data = part.view(tensor.shape)
    return buffer
