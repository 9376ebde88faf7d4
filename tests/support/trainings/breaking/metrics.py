"""Each rank reduces the metrics that it has: after epoch 1, of 5 steps, rank 1 has one more."""

import torch
import torch.distributed as dist
from parts import batch, ddp, join

rank, _ = join(6)
model, optimizer = ddp()
for epoch in range(3):
    for _ in range(5):
        optimizer.zero_grad()
        model(batch()).square().mean().backward()  # mark: backward
        optimizer.step()
    for _metric in range(3 if rank == 1 and epoch == 1 else 2):
        dist.all_reduce(torch.zeros(1))  # mark: metric
dist.destroy_process_group()
