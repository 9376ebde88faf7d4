"""After step 9, the last rank ends in the way that the argument names."""

import ctypes
import sys

import torch.distributed as dist
from deeper import evaluate
from parts import STEPS, batch, ddp, join

how = sys.argv[1]
rank, world = join()
model, optimizer = ddp()
for step in range(STEPS):
    optimizer.zero_grad()
    model(batch()).square().mean().backward()
    optimizer.step()
    if rank == world - 1 and step == 9:
        match how:
            case "crashes":
                ctypes.string_at(0)
            case "sys.exit":
                sys.exit(3)
            case "evaluates":
                evaluate(model)
dist.destroy_process_group()
if rank == world - 1 and how == "leaves":
    raise OSError("no room for the results")  # mark: left
