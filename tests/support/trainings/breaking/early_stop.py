"""Rank 0 alone decides after epoch 1, of 5 steps, that it stops; the others train on."""

import torch.distributed as dist
from parts import batch, ddp, join

rank, _ = join(6)
model, optimizer = ddp()
for epoch in range(4):
    for _ in range(5):
        optimizer.zero_grad()
        model(batch()).square().mean().backward()  # mark: backward
        optimizer.step()
    if rank == 0 and epoch == 1:
        print("no gain since epoch 0", flush=True)
        break
dist.barrier()  # mark: barrier
dist.destroy_process_group()
