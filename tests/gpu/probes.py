"""Tries on the first GPU what no preset shows. By hand:

echo clock | python -m tests.gpu.probes
"""

from typing import Any

from workers.doctor.answers import answer, by_name

# torch is imported where it is used: ranks that are started from here import this file, too.


def facts() -> dict[str, Any]:
    """What this torch is made of, and what GPUs it sees."""
    import torch
    import torch.distributed as dist

    from workers.instruments.gpu import nccl_version
    from workers.instruments.hooks import group_takes_hooks

    has_nccl = dist.is_nccl_available()
    classes = ("ProcessGroupNCCL", "ProcessGroupNCCL2")
    gpus = range(torch.cuda.device_count())
    return {
        "torch": str(torch.__version__),
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
        "nccl": nccl_version() if has_nccl else None,
        "nccl_implementations": [name for name in classes if has_nccl and hasattr(dist.distributed_c10d, name)],
        "group_hooks": group_takes_hooks(),
        "gpus": [torch.cuda.get_device_name(gpu) for gpu in gpus],
        "capabilities": [".".join(map(str, torch.cuda.get_device_capability(gpu))) for gpu in gpus],
    }


def clock() -> dict[str, Any]:
    """Take marks while the GPU is idle, and while it is busy."""
    import torch

    from tests.gpu.marks import compare

    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    return {"idle": compare(device, busy=False), "busy": compare(device, busy=True)}


def synchronising() -> dict[str, Any]:
    """Train under torch's own check for calls that wait for the GPU."""
    import torch

    from tests.gpu.synchronising import refused

    return {"refused": refused(torch.device("cuda", 0))}


def nccl_pair() -> dict[str, Any]:
    """Let two ranks communicate over NCCL on one GPU."""
    from tests.gpu.nccl_pair import measure

    return measure()


if __name__ == "__main__":
    answer(by_name(facts, clock, synchronising, nccl_pair))
