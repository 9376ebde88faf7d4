"""Many tensors in one long buffer, so that one collective serves them all."""

import torch
from torch import Tensor


def by_dtype(tensors: list[Tensor]) -> list[list[Tensor]]:
    """The tensors in groups of one dtype, since a buffer has only one; in their order."""
    groups: dict[torch.dtype, list[Tensor]] = {}
    for tensor in tensors:
        groups.setdefault(tensor.dtype, []).append(tensor)
    return list(groups.values())


def lay_out(tensors: list[Tensor], buffer: Tensor | None = None) -> Tensor:
    """Move tensors of one dtype into a buffer, one after the other: each becomes a view of its part.

    The buffer is made if there is none of the right length. Tensors that lie in their places already stay there.
    """
    lengths = [tensor.numel() for tensor in tensors]
    if buffer is None or len(buffer) != sum(lengths):
        buffer = torch.empty(sum(lengths), dtype=tensors[0].dtype, device=tensors[0].device)
    parts = buffer.split(lengths)
    if any(tensor.data_ptr() != part.data_ptr() for tensor, part in zip(tensors, parts, strict=True)):
        torch.cat([tensor.detach().flatten() for tensor in tensors], out=buffer)
        for tensor, part in zip(tensors, parts, strict=True):
            tensor.data = part.view(tensor.shape)
    return buffer
