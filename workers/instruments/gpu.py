"""Which GPUs a rank computes on, and through which NCCL its group communicates."""

from functools import partial
from typing import Any

import torch
import torch.distributed as dist

from ddptui.wire.messages import Nccl, OwnGpu

from .heartbeat import uuid_of, value_or_none

LONGEST_NAME = 100  # characters


def own_gpus(device: torch.device, several: int = 1) -> tuple[OwnGpu, ...]:
    """The GPUs of a rank, its device the first of several; none on the CPU."""
    if device.type != "cuda":
        return ()
    first = device.index or 0
    return tuple(own_gpu(torch.device("cuda", index)) for index in range(first, first + several))


def own_gpu(device: torch.device) -> OwnGpu:
    """A GPU's name and UUID, each empty if CUDA does not tell."""
    name = value_or_none(partial(torch.cuda.get_device_name, device)) or ""
    return OwnGpu("".join(filter(str.isprintable, name))[:LONGEST_NAME], uuid_of(device) or "")


def nccl_in_use(device: torch.device) -> Nccl | None:
    """The NCCL of this process's group. None: another backend, or no group."""
    in_group = dist.is_available() and dist.is_initialized()
    return value_or_none(partial(_nccl_of_group, device)) if in_group and device.type == "cuda" else None


def backend_of(device: torch.device) -> Any:
    """The backend by which this process's group communicates between such devices. Raises RuntimeError: none does."""
    assert dist.group.WORLD is not None
    backend = dist.group.WORLD._get_backend(device)
    # With TORCH_DISTRIBUTED_DEBUG=DETAIL, another backend checks each call before it passes it on to this one.
    return getattr(backend, "wrapped_pg", backend)


def nccl_version() -> str:
    """The version of the NCCL that this torch has, as in 2.28.9."""
    return ".".join(map(str, torch.cuda.nccl.version()))


def _nccl_of_group(device: torch.device) -> Nccl | None:
    implementation = type(backend_of(device)).__name__
    if "NCCL" not in implementation:
        return None
    return Nccl(nccl_version(), implementation)
