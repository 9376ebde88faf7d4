"""Ranks that a script starts by mp.spawn; rank 1 fails after step 9. Argument: the port where they meet."""

import sys

import torch.distributed as dist
import torch.multiprocessing as mp
from parts import STEPS, batch, ddp, join


def train(rank, port):
    join(init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    model, optimizer = ddp()
    for step in range(STEPS):
        optimizer.zero_grad()
        model(batch()).square().mean().backward()
        optimizer.step()
        if rank == 1 and step == 9:
            raise ZeroDivisionError("no samples of class 3")  # mark: train
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(train, (sys.argv[1],), nprocs=2)
