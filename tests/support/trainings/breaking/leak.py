"""Rank 1 keeps 8 MB of each step, and is killed after step 20, as the kernel does where there is no memory left."""

import os
import signal
import time

import torch
import torch.distributed as dist
from parts import batch, ddp, join

rank, _ = join()
model, optimizer = ddp()
kept = []
for step in range(40):
    optimizer.zero_grad()
    model(batch()).square().mean().backward()
    optimizer.step()
    time.sleep(0.05)  # as long as steps of such a size take
    if rank == 1:
        kept.append(torch.ones(2_000_000))
        if step == 20:
            os.kill(os.getpid(), signal.SIGKILL)  # mark: killed
dist.destroy_process_group()
