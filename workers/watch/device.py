"""Finds the device on which a training computes, and whether the instruments may start there now."""

import threading
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

CPU = torch.device("cpu")


def device_of(shown: Any) -> torch.device:
    """The device of `shown`: the tensors on which backward was called, a loss, or a torch DDP. If it has none: this
    thread's current GPU if CUDA is initialized, else the CPU. Touches no other GPU, where a context takes some hundred
    MB."""
    first = next((one for one in (shown if isinstance(shown, Sequence) else [shown]) if isinstance(one, Tensor)), shown)
    with torch._C.DisableTorchFunction():  # hides this access from the training's tensor subclasses and modes
        device = getattr(first, "device", None)
    if isinstance(device, torch.device):
        return CPU if device.type == "meta" else device
    return torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_initialized() else CPU


def is_capturing() -> bool:
    """Whether this thread is capturing a CUDA graph, which the first calls of a clock would abort."""
    if not torch.cuda.is_initialized():
        return False
    # CUDA never captures its default stream, whose pointer is 0, and must not be queried about it during a capture.
    stream = torch._C._cuda_getCurrentRawStream(torch.cuda.current_device())
    return bool(stream) and torch.cuda.is_current_stream_capturing()


def is_autograds_thread() -> bool:
    """Whether this is one of autograd's own threads, which run a GPU's part of backward, and a backward is running."""
    known = threading._active.get(threading.get_ident())  # type: ignore[attr-defined]
    is_pythons = known is not None and not isinstance(known, threading._DummyThread)
    return not is_pythons and torch._C._current_graph_task_id() != -1
