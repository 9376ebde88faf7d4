"""Tests what torch can do on this machine, for `ddptui doctor`. By hand:

echo spawn | python -m workers.doctor.probe
"""

from typing import Any

from workers.doctor.answers import answer, by_name, last_line

# torch is imported where it is used: ranks that are started from here also import this file, but not torchvision.


def versions() -> dict[str, Any]:
    """The versions of torch and torchvision, and the features with which this torch is built."""
    import torch
    import torch.distributed as dist
    import torchvision

    from workers.instruments.hooks import group_takes_hooks

    return {
        "torch": str(torch.__version__),
        "torchvision": str(torchvision.__version__),
        "backends": [name for name in ("gloo", "nccl", "mpi") if getattr(dist, f"is_{name}_available")()],
        "group_hooks": group_takes_hooks(),
    }


def gpus() -> dict[str, Any]:
    """The name and the memory in bytes of each GPU, or the reason why torch sees none."""
    import torch

    try:
        torch.cuda.init()
    except (RuntimeError, AssertionError) as error:
        return {"gpus": [], "why_none": last_line(error)}
    properties = [torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count())]
    return {"gpus": [(gpu.name, gpu.total_memory) for gpu in properties], "why_none": ""}


def spawn() -> dict[str, Any]:
    """The time of an all_reduce over gloo with spawned ranks."""
    from workers.doctor.meeting import meet_over_gloo

    return {"sum_s": meet_over_gloo("spawn")}


def forkserver() -> dict[str, Any]:
    """The time of an all_reduce over gloo with ranks of a forkserver."""
    from workers.doctor.meeting import meet_over_gloo

    return {"sum_s": meet_over_gloo("forkserver")}


def nccl() -> dict[str, Any]:
    """The time of an all_reduce over NCCL, and the NCCL used."""
    from workers.doctor.meeting import meet_over_nccl

    sum_s, used = meet_over_nccl()
    return {"sum_s": sum_s, "nccl": f"{used.version} by {used.implementation}" if used else "of an unknown version"}


if __name__ == "__main__":
    answer(by_name(versions, gpus, spawn, forkserver, nccl))
