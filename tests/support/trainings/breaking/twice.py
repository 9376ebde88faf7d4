"""After step 9, rank 1 wraps its model in DDP anew, as after a checkpoint is loaded; the others do not."""

import torch.distributed as dist
from parts import STEPS, batch, ddp, join

rank, _ = join(6)
model, optimizer = ddp()
for step in range(STEPS):
    optimizer.zero_grad()
    model(batch()).square().mean().backward()  # mark: backward
    optimizer.step()
    if rank == 1 and step == 9:
        model, optimizer = ddp()  # mark: again
dist.destroy_process_group()
