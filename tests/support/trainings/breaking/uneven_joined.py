"""Rank 1 has fewer batches, which Join takes care of: the training ends well."""

import torch.distributed as dist
from parts import STEPS, batch, ddp, join

rank, _ = join()
model, optimizer = ddp()
with model.join():
    for _ in range(STEPS if rank else 2 * STEPS):
        optimizer.zero_grad()
        model(batch()).square().mean().backward()
        optimizer.step()
dist.destroy_process_group()
