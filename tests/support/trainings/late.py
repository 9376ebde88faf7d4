"""What the trainings beside it share: their samples and their network, and what makes rank 1 late.

Arguments of each: WHERE (none, data, forward or backward), and by how many milliseconds a step (20).

torch.distributed.nn is imported before there is a group. An optimizer imports it otherwise, and its functions have the
group as a default: the group outlives Python, where a thread of gloo's that drops a tensor ends the process. Without
ddptui, torch 2.14.1 aborted 8 of 96 such trainings on a busy machine at their end, and none of 96 with this import.
"""

import sys
import time

import torch
import torch.distributed as dist
import torch.distributed.nn
from torch import nn
from torch.utils.data import TensorDataset, default_collate

WHERE = sys.argv[1] if len(sys.argv) > 1 else "none"
LATE_S = float(sys.argv[2] if len(sys.argv) > 2 else 20) / 1000
EPOCHS, BATCH = 2, 16


def sleep_if_late(where):
    if where == WHERE and dist.get_rank() == 1:
        time.sleep(LATE_S)


def collate(samples):
    sleep_if_late("data")
    return default_collate(samples)


class Late(torch.autograd.Function):
    """The identity, that takes its time."""

    @staticmethod
    def forward(context, outputs):
        sleep_if_late("forward")
        return outputs.clone()

    @staticmethod
    def backward(context, gradients):
        sleep_if_late("backward")
        return gradients


def samples(number=1024):
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(number, 32, generator=generator)
    return TensorDataset(inputs, torch.randint(0, 10, (number,), generator=generator))


def network():
    return nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 10))
