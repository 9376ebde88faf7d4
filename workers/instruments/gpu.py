"""Tells on which GPUs a rank computes, how much of their memory torch holds, and which NCCL its group uses."""

from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch import Tensor

from .shield import suppressed

LONGEST_NAME = 100  # characters
HOST, STOCK_NCCL, NCCL2, ANOTHER = "host", "ProcessGroupNCCL", "nccl2", "another"  # carriers of collectives
MEMORY = tuple(f"{what}_bytes.all.{when}" for when in ("current", "peak") for what in ("allocated", "reserved"))
_carriers: WeakKeyDictionary[Any, str] = WeakKeyDictionary()  # by group: the carrier between GPUs


def own_gpus(device: torch.device, several: int = 1) -> tuple[tuple[str, str], ...]:
    """The name and UUID of each GPU of a rank, for wire.OwnGpu; empty on the CPU. device: the first of `several`
    GPUs."""
    if device.type != "cuda":
        return ()
    first = device.index or 0
    return tuple(own_gpu(torch.device("cuda", index)) for index in range(first, first + several))


def own_gpu(device: torch.device) -> tuple[str, str]:
    """A GPU's name and UUID, each empty if CUDA does not provide it."""
    name = ""
    with suppressed(Exception):  # a GPU may be lost, and a missing name must never end the rank
        name = torch.cuda.get_device_name(device)
    return "".join(filter(str.isprintable, name))[:LONGEST_NAME], uuid_of(device) or ""


def uuid_of(device: torch.device) -> str | None:
    """The UUID of a GPU or MIG instance, without NVML's prefix; None on the CPU, or if CUDA does not provide it."""
    uuid = None
    with suppressed(Exception):  # as above
        uuid = str(torch.cuda.get_device_properties(device).uuid) if device.type == "cuda" else None
    return uuid


def nccl_in_use(device: torch.device) -> tuple[str, str] | None:
    """Version and implementation of the process group's NCCL, for wire.Nccl; None without a group or with another
    backend."""
    if dist.is_available() and dist.is_initialized() and device.type == "cuda":
        with suppressed(Exception):  # as above
            implementation = type(backend_of(device)).__name__
            return (nccl_version(), implementation) if "NCCL" in implementation else None
    return None


def memory_of(device: torch.device) -> tuple[int | None, ...]:
    """The GPU memory in bytes that this process's tensors use, and that torch has reserved, used or not; then the most
    of both so far. Each is None on the CPU. Raises RuntimeError if a custom allocator does not report its memory."""
    if device.type != "cuda":
        return (None,) * len(MEMORY)
    # Pass the device: each thread has its own current device, and the reporter's thread may have the first GPU.
    stats = torch.cuda.memory_stats(device)
    return tuple(stats.get(name, 0) for name in MEMORY)


def carrier_between_gpus(group: Any) -> str:
    """What carries a group's collectives between GPUs: one of torch's implementations of NCCL, or another backend."""
    if group not in _carriers:
        name = ANOTHER
        with suppressed(RuntimeError):  # the group has no backend for GPUs
            name = type(backend_of(torch.device("cuda"), group)).__name__
        _carriers[group] = name if name == STOCK_NCCL else NCCL2 if "NCCL" in name else ANOTHER
    return _carriers[group]


def carrier_of(tensor: Tensor | None, between_gpus: str) -> str:
    """What carries the data of a collective: the host if its tensors are on the CPU, otherwise `between_gpus`, which is
    `carrier_between_gpus` of its group. tensor: the collective's first tensor; None for a barrier."""
    if tensor is None:
        return HOST if between_gpus == ANOTHER else between_gpus  # a barrier, by gloo or NCCL
    with torch._C.DisableTorchFunction():  # hides this access from the training's tensor subclasses and modes
        return HOST if tensor.device.type == "cpu" else between_gpus


def backend_of(device: torch.device, group: Any = None) -> Any:
    """The backend through which a group communicates between devices of this type. group: None for the group of all
    ranks. Raises RuntimeError if there is none."""
    group = group or dist.group.WORLD
    assert group is not None
    backend = group._get_backend(device)
    # With TORCH_DISTRIBUTED_DEBUG=DETAIL, a wrapper checks each call before it passes it on to the backend.
    return getattr(backend, "wrapped_pg", backend)


def nccl_version() -> str:
    """The version of this torch's NCCL, e.g. 2.28.9."""
    return ".".join(map(str, torch.cuda.nccl.version()))
