"""Packs many tensors into one flat buffer, so that one collective serves all; and views one tensor as a flat vector."""

import torch
from torch import Tensor


def group_by_dtype(tensors: list[Tensor]) -> list[list[Tensor]]:
    """The tensors grouped by dtype, each group in the given order: a buffer has only one dtype."""
    groups: dict[torch.dtype, list[Tensor]] = {}
    for tensor in tensors:
        groups.setdefault(tensor.dtype, []).append(tensor)
    return list(groups.values())


def move_into_buffer(tensors: list[Tensor], buffer: Tensor | None = None, divisor: int = 1) -> Tensor:
    """Move tensors of one dtype, divided by `divisor`, into a flat buffer. Each tensor becomes a view of its part."""
    lengths = [tensor.numel() for tensor in tensors]
    if buffer is None or len(buffer) != sum(lengths) or would_overwrite(tensors, buffer, lengths):
        buffer = torch.empty(sum(lengths), dtype=tensors[0].dtype, device=tensors[0].device)
    for tensor, part in zip(tensors, buffer.split(lengths), strict=True):
        # Keep the strides of a dense tensor (channels_last, say): a fused optimizer walks through gradients and
        # parameters in memory order, whatever their strides.
        strides = torch.empty_like(tensor, device="meta").stride()
        place = part.as_strided(tensor.shape, strides, part.storage_offset())
        if tensor.data_ptr() != place.data_ptr() or divisor != 1:  # else it is already in its place
            torch.div(tensor.detach(), divisor, out=place)
        tensor.data = place
    return buffer


def in_memory_order(tensor: Tensor) -> Tensor:
    """A dense tensor as a flat view in memory order, which is the same on all ranks if the strides are. Raises
    RuntimeError if the tensor is not dense."""
    outermost_first = sorted(range(tensor.dim()), key=tensor.stride, reverse=True)
    return tensor.permute(outermost_first).view(-1)  # view(-1) alone requires index order to be memory order


def would_overwrite(tensors: list[Tensor], buffer: Tensor, lengths: list[int]) -> bool:
    """Whether some tensors are already in the buffer, but not all in their places: moving one may overwrite another."""
    memory = buffer.untyped_storage().data_ptr()
    inside = any(tensor.untyped_storage().data_ptr() == memory for tensor in tensors)
    return inside and any(
        tensor.data_ptr() != part.data_ptr() for tensor, part in zip(tensors, buffer.split(lengths), strict=True)
    )
