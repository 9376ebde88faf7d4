"""Many tensors in one long buffer, so that one collective serves them all."""

import torch
from torch import Tensor


def by_dtype(tensors: list[Tensor]) -> list[list[Tensor]]:
    """The tensors in groups of one dtype, since a buffer has only one; in their order."""
    groups: dict[torch.dtype, list[Tensor]] = {}
    for tensor in tensors:
        groups.setdefault(tensor.dtype, []).append(tensor)
    return list(groups.values())


def lay_out(tensors: list[Tensor], buffer: Tensor | None = None, divisor: int = 1) -> Tensor:
    """Move tensors of one dtype into a buffer, one after the other, divided on the way; each becomes a view there.

    The buffer is made if there is none of the right length. Tensors that lie in their places already stay there.
    """
    lengths = [tensor.numel() for tensor in tensors]
    if buffer is None or len(buffer) != sum(lengths) or lie_elsewhere(tensors, buffer, lengths):
        buffer = torch.empty(sum(lengths), dtype=tensors[0].dtype, device=tensors[0].device)
    for tensor, part in zip(tensors, buffer.split(lengths), strict=True):
        place = part.view(tensor.shape)
        if tensor.data_ptr() != place.data_ptr() or divisor != 1:
            torch.div(tensor.detach(), divisor, out=place)
        tensor.data = place
    return buffer


def lie_elsewhere(tensors: list[Tensor], buffer: Tensor, lengths: list[int]) -> bool:
    """Whether some lie in the buffer, but not all in their places: moving one would overwrite another."""
    memory = buffer.untyped_storage().data_ptr()
    inside = any(tensor.untyped_storage().data_ptr() == memory for tensor in tensors)
    return inside and any(
        tensor.data_ptr() != part.data_ptr() for tensor, part in zip(tensors, buffer.split(lengths), strict=True)
    )
