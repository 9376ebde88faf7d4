"""Several devices under one rank: DataParallel inside it, and the strategy across the ranks."""

import torch
from torch import nn

from workers.rank.delays import RankDelays
from workers.rank.process import Rank
from workers.replicas.replicas import GpuDataParallel, ReplicaState, ThreadedDataParallel


def replicate_over_devices(me: Rank, model: nn.Module) -> nn.Module:
    """The model, run on each of the rank's GPUs with a part of the rank's share; gradients add up on the first one,
    which is the one that a rank's figures of memory are of: none of the others holds more. Without GPUs: threads, as in
    `dp`."""
    several = me.trial.gpus_per_rank
    if several == 1:
        return model
    if me.device.type == "cuda":
        first = me.device.index or 0
        return GpuDataParallel(model, list(range(first, first + several)))
    threads = max(1, torch.get_num_threads() // several)
    nobody = RankDelays((), me.rank, seed=0, warmup_steps=0)  # it is the rank that is delayed
    return ThreadedDataParallel(model, [ReplicaState(me.reporter, nobody) for _ in range(several)], threads)
