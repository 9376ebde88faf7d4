"""Rank 1 skips step 10, since its loss is NaN; the others do not skip theirs. All meet in a barrier at the end."""

import torch.distributed as dist
from parts import STEPS, batch, ddp, join

rank, _ = join(6)
model, optimizer = ddp()
for step in range(STEPS):
    inputs = batch() * float("nan") if rank == 1 and step == 10 else batch()
    optimizer.zero_grad()
    loss = model(inputs).square().mean()
    if loss.isnan():
        continue
    loss.backward()  # mark: backward
    optimizer.step()
dist.barrier()  # mark: barrier
dist.destroy_process_group()
