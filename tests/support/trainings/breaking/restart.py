"""On the first attempt, rank 1 fails after step 9; the second one goes on from a checkpoint of step 5. Argument: the
checkpoint's path."""

import os
import sys

import torch
import torch.distributed as dist
from parts import STEPS, batch, ddp, join

attempt, path = int(os.environ["TORCHELASTIC_RESTART_COUNT"]), sys.argv[1]
# A store of its own for each attempt: in the launcher's, gloo may find the addresses of ranks that have died.
own = {"init_method": f"file://{os.path.abspath(f'store-{attempt}')}", "rank": int(os.environ["RANK"]), "world_size": 2}
rank, _ = join(**own)
model, optimizer = ddp()
for step in range(torch.load(path)["step"] if attempt else 0, STEPS):
    optimizer.zero_grad()
    model(batch()).square().mean().backward()
    optimizer.step()
    if rank == 0 and step == 5:
        torch.save({"step": step}, path)
    if rank == 1 and step == 9 and attempt == 0:
        raise ValueError("cosmic ray")  # mark: ray
sys.stdout.write(f"rank {rank} attempt {attempt} ends well\n")  # at once: under torchrun, print writes word by word
dist.destroy_process_group()
