"""Finds the device on which a training computes, and whether the instruments may begin there now."""

import threading
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

CPU = torch.device("cpu")


def device_of(shown: Any) -> torch.device:
    """The device of what backward was called on, of a loss, or of a torch DDP; else this thread's current GPU, if CUDA
    runs. Any other GPU stays untouched: a context takes some hundred MB there."""
    first = next((one for one in (shown if isinstance(shown, Sequence) else [shown]) if isinstance(one, Tensor)), shown)
    with torch._C.DisableTorchFunction():  # else a class of tensors, or a mode, of the training's would see this
        device = getattr(first, "device", None)
    if isinstance(device, torch.device):
        return CPU if device.type == "meta" else device
    return torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_initialized() else CPU


def is_capturing() -> bool:
    """Whether this thread captures a graph, which the first calls of a clock would end."""
    if not torch.cuda.is_initialized():
        return False
    # CUDA does not capture its default stream, whose pointer is 0, and may not be asked about it meanwhile.
    stream = torch._C._cuda_getCurrentRawStream(torch.cuda.current_device())
    return bool(stream) and torch.cuda.is_current_stream_capturing()


def is_autograds_thread() -> bool:
    """Whether this is one of autograd's own threads, which run a GPU's part of backward, during a backward."""
    known = threading._active.get(threading.get_ident())  # type: ignore[attr-defined]
    is_pythons = known is not None and not isinstance(known, threading._DummyThread)
    return not is_pythons and torch._C._current_graph_task_id() != -1
