"""Each step adds up the gradients of 4 batches. After step 9, rank 1 finds no label in the second batch of the next."""

import contextlib

import torch.distributed as dist
from parts import STEPS, batch, ddp, join

rank, _ = join()
model, optimizer = ddp()
for number in range(4 * STEPS):
    is_last = number % 4 == 3
    if rank == 1 and number == 41:
        raise LookupError(f"no label in batch {number}")  # mark: label
    with contextlib.nullcontext() if is_last else model.no_sync():
        model(batch()).square().mean().backward()
    if is_last:
        optimizer.step()
        optimizer.zero_grad()
dist.destroy_process_group()
