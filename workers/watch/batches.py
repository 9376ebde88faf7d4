"""How much a loader gives: samples in a batch, batches in a pass."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor
from torch.utils.data import BatchSampler

DEEPEST = 8  # containers within containers that are looked through for a batch's first tensor


def batches_of(iterator: Any) -> int | None:
    """How many batches a loader's iterator gives. None: that is not known. Samplers of the user's own are not asked:
    they may draw all their batches to count them."""
    batches = getattr(iterator, "_index_sampler", None)
    parts = [batches, getattr(batches, "sampler", None)] if isinstance(batches, BatchSampler) else [batches]
    lengths = [getattr(type(part), "__len__", None) for part in parts]
    if any(getattr(length, "__module__", "").partition(".")[0] != "torch" for length in lengths):
        return None
    try:
        return len(iterator)
    except Exception:  # of the data set
        return None


def samples_in(batch: Any, depth: int = 0) -> int | None:
    """The length of a batch's first tensor, whatever it is in. None: it has none."""
    if isinstance(batch, Tensor):
        return batch.shape[0] if batch.dim() else None
    if depth < DEEPEST:
        parts = batch if isinstance(batch, list | tuple) else batch.values() if isinstance(batch, Mapping) else ()
        for part in parts:
            if (samples := samples_in(part, depth + 1)) is not None:
                return samples
    return None
