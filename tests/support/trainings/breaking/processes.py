"""Ranks that a script starts by mp.spawn or mp.Process; rank 1 fails after step 9. Arguments: spawn or process, and the
port where they meet."""

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
    how, port = sys.argv[1:]
    if how == "spawn":
        mp.spawn(train, (port,), nprocs=2)
    else:
        ranks = [mp.get_context("spawn").Process(target=train, args=(rank, port)) for rank in range(2)]
        for process in ranks:
            process.start()
        for process in ranks:
            process.join()
        sys.exit(max(abs(process.exitcode) for process in ranks))
