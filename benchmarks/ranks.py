"""What the ranks of several benchmarks do alike."""

import os

import torch
import torch.distributed as dist

from workers.rank.group import LOCALHOST


def join(rank: int, ranks: int, port: int, *, batch: bool = True) -> None:
    """Become a rank of one thread in a gloo group, in SCHED_BATCH unless told otherwise: as the lab's ranks do it."""
    if batch:
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    torch.set_num_threads(1)
    store = dist.TCPStore(LOCALHOST, port, is_master=False)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks)
