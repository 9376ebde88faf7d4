"""Ranks that a script starts itself, by mp.spawn or mp.Process with fork, as users write them.

Arguments: spawn or fork, and the port where they meet.
"""

import gc
import sys
import time

import torch
import torch.distributed as dist
import torch.distributed.nn  # before there is a group: see late.py
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS, LATE_S = 40, 0.01


def train(rank: int, world_size: int, port: str) -> None:
    dist.init_process_group("gloo", init_method=f"tcp://localhost:{port}", rank=rank, world_size=world_size)
    torch.set_num_threads(1)
    model = DistributedDataParallel(nn.Linear(8, 4))
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = model(torch.randn(16, 8)).square().mean()
        if rank == 1:
            time.sleep(LATE_S)
        loss.backward()
        optimizer.step()
    dist.destroy_process_group()
    del model, loss, optimizer
    gc.collect()  # torch aborts now and then where a DDP, which is in a cycle, is left until Python ends


if __name__ == "__main__":
    how, port = sys.argv[1:3]
    if how == "spawn":
        mp.spawn(train, args=(2, port), nprocs=2)
    else:
        ranks = [mp.get_context("fork").Process(target=train, args=(rank, 2, port)) for rank in range(2)]
        for process in ranks:
            process.start()
        for process in ranks:
            process.join()
