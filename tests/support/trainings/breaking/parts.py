"""What the trainings of this folder share. Each of them breaks in its own way, which its docstring says; a comment
`# mark: NAME` stands in the line that a report has to name."""

from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 20
WIDTH = 64


def join(limit_s: float = 30, backend: str = "gloo", **words: object) -> tuple[int, int]:
    """The rank and the world size, in a group whose collectives may wait for `limit_s`."""
    dist.init_process_group(backend, timeout=timedelta(seconds=limit_s), **words)  # mark: group
    torch.manual_seed(0)
    return dist.get_rank(), dist.get_world_size()


def ddp() -> tuple[nn.Module, torch.optim.Optimizer]:
    network = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))
    model = DistributedDataParallel(network)  # mark: ddp
    return model, torch.optim.SGD(model.parameters(), lr=0.01)


def batch() -> torch.Tensor:
    return torch.randn(16, WIDTH)
