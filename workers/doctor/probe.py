"""Tells what torch can do on this machine by doing it, for `ddptui doctor`. By hand:

echo spawn | python -m workers.doctor.probe
"""

from typing import Any

from workers.doctor.answers import answer, last_line

# torch is imported where it is used: ranks started from here import this file, too, and need no torchvision.


def versions() -> dict[str, Any]:
    import torch
    import torch.distributed as dist
    import torchvision

    return {
        "torch": str(torch.__version__),
        "torchvision": str(torchvision.__version__),
        "backends": [name for name in ("gloo", "nccl", "mpi") if getattr(dist, f"is_{name}_available")()],
        "group_hooks": hasattr(dist.ProcessGroup, "register_pre_hook"),
        "gpu_build": torch.version.cuda or torch.version.hip,
    }


def gpus() -> dict[str, Any]:
    """Names and memory in bytes; or why torch sees none."""
    import torch

    try:
        torch.cuda.init()
    except (RuntimeError, AssertionError) as error:
        return {"gpus": [], "why_none": last_line(error)}
    every = [torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count())]
    return {"gpus": [(one.name, one.total_memory) for one in every], "why_none": ""}


def spawn() -> dict[str, Any]:
    from workers.doctor.meeting import meet_over_gloo

    return {"sum_s": meet_over_gloo("spawn")}


def forkserver() -> dict[str, Any]:
    from workers.doctor.meeting import meet_over_gloo

    return {"sum_s": meet_over_gloo("forkserver")}


def nccl() -> dict[str, Any]:
    import torch

    from workers.doctor.meeting import meet_over_nccl

    return {"sum_s": meet_over_nccl(), "version": ".".join(str(part) for part in torch.cuda.nccl.version())}


if __name__ == "__main__":
    answer({question.__name__: question for question in (versions, gpus, spawn, forkserver, nccl)})
