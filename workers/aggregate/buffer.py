"""Many tensors in one long buffer, so that one collective serves them all; and one tensor as a long vector."""

import torch
from torch import Tensor


def group_by_dtype(tensors: list[Tensor]) -> list[list[Tensor]]:
    """The tensors in groups of one dtype, since a buffer has only one; in their order."""
    groups: dict[torch.dtype, list[Tensor]] = {}
    for tensor in tensors:
        groups.setdefault(tensor.dtype, []).append(tensor)
    return list(groups.values())


def move_into_buffer(tensors: list[Tensor], buffer: Tensor | None = None, divisor: int = 1) -> Tensor:
    """Move tensors of one dtype into a buffer, one after the other, divided on the way; each becomes a view there.

    The buffer is made if there is none of the right length. Tensors that lie in their places already stay there.
    """
    lengths = [tensor.numel() for tensor in tensors]
    if buffer is None or len(buffer) != sum(lengths) or would_overwrite(tensors, buffer, lengths):
        buffer = torch.empty(sum(lengths), dtype=tensors[0].dtype, device=tensors[0].device)
    for tensor, part in zip(tensors, buffer.split(lengths), strict=True):
        place = view_shaped_like(tensor, part)
        if tensor.data_ptr() != place.data_ptr() or divisor != 1:
            torch.div(tensor.detach(), divisor, out=place)
        tensor.data = place
    return buffer


def view_shaped_like(tensor: Tensor, part: Tensor) -> Tensor:
    """A part of a buffer in the tensor's shape and, where that is dense, with its strides (channels innermost, say): a
    fused optimizer goes through gradient and parameter as they lie in memory, whatever their strides say."""
    strides = torch.empty_like(tensor, device="meta").stride()
    return part.as_strided(tensor.shape, strides, part.storage_offset())


def in_memory_order(tensor: Tensor) -> Tensor:
    """A dense tensor as a vector of its numbers in the order of memory. (view(-1) wants them in the order of indices.)
    All ranks must have the same strides; then it is the same order on all. Raises RuntimeError if it is not dense."""
    outermost_first = sorted(range(tensor.dim()), key=tensor.stride, reverse=True)
    return tensor.permute(outermost_first).view(-1)


def would_overwrite(tensors: list[Tensor], buffer: Tensor, lengths: list[int]) -> bool:
    """Whether some lie in the buffer, but not all in their places: moving one would overwrite another."""
    memory = buffer.untyped_storage().data_ptr()
    inside = any(tensor.untyped_storage().data_ptr() == memory for tensor in tensors)
    return inside and any(
        tensor.data_ptr() != part.data_ptr() for tensor, part in zip(tensors, buffer.split(lengths), strict=True)
    )
