"""After step 9, one rank calls a collective that the others do not. Arguments: the collective and the rank."""

import sys

import torch
import torch.distributed as dist
from parts import STEPS, batch, ddp, join

kind, lone = sys.argv[1], int(sys.argv[2])
rank, _ = join(6)
model, optimizer = ddp()
value = torch.zeros(3)
arguments = {
    "broadcast": (value, 1 if lone == 0 else 0),
    "all_reduce": (value,),
}
for step in range(STEPS):
    optimizer.zero_grad()
    model(batch()).square().mean().backward()  # mark: backward
    optimizer.step()
    if rank == lone and step == 9:
        getattr(dist, kind)(*arguments.get(kind, ()))  # mark: lone
dist.destroy_process_group()
