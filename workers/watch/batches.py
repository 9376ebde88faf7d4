"""How much a loader gives: samples in a batch, batches in a pass. Nothing here grows with the batch, and none of its
containers runs code of the user's own."""

from collections import UserDict
from collections.abc import Iterable
from itertools import islice
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import BatchSampler

from ..instruments.shield import is_from_a_handler

MOST_LOOKED_AT = 64  # containers and values of a batch, in search of its first tensor


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
    except Exception as error:  # of the data set, which may be of any kind
        if is_from_a_handler(error):
            raise
        return None


def samples_in(batch: Any) -> int | None:
    """The length of a batch's first tensor, whatever it is in. None: it has none, or none is near its beginning."""
    pending = [batch]
    for _ in range(MOST_LOOKED_AT):
        if not pending:
            return None
        first = pending.pop()
        if not issubclass(type(first), Tensor):
            pending += reversed(list(islice(_parts(first), MOST_LOOKED_AT)))
            continue
        with torch._C.DisableTorchFunction():
            if first.dim():
                return int(first.size(0))
    return None


def _parts(container: Any) -> Iterable[Any]:
    """What is in a container, as the built-in class that it derives from would give it."""
    kind = type(container)
    if issubclass(kind, UserDict):
        container = vars(container).get("data")
        kind = type(container)
    if issubclass(kind, dict):
        return dict.values(container)
    if issubclass(kind, list):
        return list.__iter__(container)
    return tuple.__iter__(container) if issubclass(kind, tuple) else ()
