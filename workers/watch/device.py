"""Which device a training computes on, as its first sign shows; and what may not be done on it now."""

import threading
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

CPU = torch.device("cpu")


def device_of(shown: Any) -> torch.device:
    """The device of what backward was called on, of a loss, or of a torch DDP. Where that shows none: the GPU that this
    thread has made its own, if CUDA runs. No other GPU is touched: CUDA would take some hundred MB there."""
    first = next((one for one in (shown if isinstance(shown, Sequence) else [shown]) if isinstance(one, Tensor)), shown)
    with torch._C.DisableTorchFunction():  # else a class of tensors, or a mode, of the training's would see this
        device = getattr(first, "device", None)
    if isinstance(device, torch.device):
        return CPU if device.type == "meta" else device
    return torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_initialized() else CPU


def may_begin() -> bool:
    """Whether a training may be watched from this call on: not while it captures a graph, which a clock's first calls
    would end; nor from within a backward that nobody saw begin, whose thread is not the loop's."""
    is_capturing = torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()
    return not is_capturing and not is_autograds_thread()


def is_autograds_thread() -> bool:
    """Whether this thread is autograd's own, in a backward: a GPU's functions run in another one than has called it."""
    known = threading._active.get(threading.get_ident())  # type: ignore[attr-defined]
    is_pythons = known is not None and not isinstance(known, threading._DummyThread)
    return not is_pythons and torch._C._current_graph_task_id() != -1
