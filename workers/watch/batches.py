"""Counts what a data loader yields: samples per batch, batches per pass. The cost does not grow with the batch, and no
user code runs, even if the batch is in a container of the user's own class."""

from collections import UserDict
from collections.abc import Iterable
from itertools import islice
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import BatchSampler

from ..instruments.shield import is_from_a_handler

MOST_LOOKED_AT = 64  # containers and values of a batch that are searched for its first tensor


def batches_of(iterator: Any) -> int | None:
    """The number of batches that a loader's iterator yields, or None if it is unknown. Does not call the `__len__` of a
    user-defined sampler, which may draw all its batches to count them."""
    batches = getattr(iterator, "_index_sampler", None)
    parts = [batches, getattr(batches, "sampler", None)] if isinstance(batches, BatchSampler) else [batches]
    lengths = [getattr(type(part), "__len__", None) for part in parts]
    if any(getattr(length, "__module__", "").partition(".")[0] != "torch" for length in lengths):
        return None
    try:
        return len(iterator)
    except Exception as error:  # the data set may be of any kind, and raise anything
        if is_from_a_handler(error):
            raise
        return None


def samples_in(batch: Any) -> int | None:
    """The length of the first tensor in a batch, at any depth; None if no tensor is near its beginning."""
    first = first_tensor(batch)
    with torch._C.DisableTorchFunction():
        return None if first is None else int(first.size(0))


def first_tensor(batch: Any) -> Tensor | None:
    """The first tensor in a batch that has dimensions, at any depth; None if there is none near its beginning."""
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
                return first  # type: ignore[no-any-return]
    return None


def _parts(container: Any) -> Iterable[Any]:
    """The contents of a container, read by the methods of the built-in class from which it derives."""
    kind = type(container)
    if issubclass(kind, UserDict):
        container = vars(container).get("data")
        kind = type(container)
    if issubclass(kind, dict):
        return dict.values(container)
    if issubclass(kind, list):
        return list.__iter__(container)
    return tuple.__iter__(container) if issubclass(kind, tuple) else ()
