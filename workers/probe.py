"""Tells what torch can do on this machine, as JSON, for `ddptui doctor`."""

import json
import sys

import torch
import torch.distributed as dist
import torchvision


def main() -> None:
    gpus = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    backends = {name: getattr(dist, f"is_{name}_available")() for name in ("gloo", "nccl", "mpi")}
    facts = {
        "torch": str(torch.__version__),
        "torchvision": str(torchvision.__version__),
        "cuda_build": torch.version.cuda,
        "gpus": gpus,
        "backends": backends,
        "group_hooks": hasattr(dist.ProcessGroup, "register_pre_hook"),
    }
    json.dump(facts, sys.stdout)


if __name__ == "__main__":
    main()
