"""Many tensors in one flat buffer, so that one collective serves all of them; and one tensor as a flat vector."""

import torch
from torch import Tensor


def group_by_dtype(tensors: list[Tensor]) -> list[list[Tensor]]:
    """The tensors in groups of one dtype, in their order. A buffer has only one dtype."""
    groups: dict[torch.dtype, list[Tensor]] = {}
    for tensor in tensors:
        groups.setdefault(tensor.dtype, []).append(tensor)
    return list(groups.values())


def move_into_buffer(tensors: list[Tensor], buffer: Tensor | None = None, divisor: int = 1) -> Tensor:
    """Move tensors of one dtype into a flat buffer, divided by the divisor. Each becomes a view of its place there."""
    lengths = [tensor.numel() for tensor in tensors]
    if buffer is None or len(buffer) != sum(lengths) or would_overwrite(tensors, buffer, lengths):
        buffer = torch.empty(sum(lengths), dtype=tensors[0].dtype, device=tensors[0].device)
    for tensor, part in zip(tensors, buffer.split(lengths), strict=True):
        # With the tensor's strides, if it is dense (channels_last, say): a fused optimizer walks through gradient and
        # parameter in memory order, whatever their strides.
        strides = torch.empty_like(tensor, device="meta").stride()
        place = part.as_strided(tensor.shape, strides, part.storage_offset())
        if tensor.data_ptr() != place.data_ptr() or divisor != 1:  # else it is in its place already
            torch.div(tensor.detach(), divisor, out=place)
        tensor.data = place
    return buffer


def in_memory_order(tensor: Tensor) -> Tensor:
    """A dense tensor as a flat view in memory order, which is the same on all ranks if their strides are. Raises
    RuntimeError for a tensor that is not dense."""
    outermost_first = sorted(range(tensor.dim()), key=tensor.stride, reverse=True)
    return tensor.permute(outermost_first).view(-1)  # view(-1) alone needs index order to be memory order


def would_overwrite(tensors: list[Tensor], buffer: Tensor, lengths: list[int]) -> bool:
    """Whether some tensors are in the buffer but not all in their places: moving one would overwrite another."""
    memory = buffer.untyped_storage().data_ptr()
    inside = any(tensor.untyped_storage().data_ptr() == memory for tensor in tensors)
    return inside and any(
        tensor.data_ptr() != part.data_ptr() for tensor, part in zip(tensors, buffer.split(lengths), strict=True)
    )
