"""A script that starts its other ranks itself, their output in /dev/null. Arguments: the host and the port where they
meet, the world size, and how many ranks are started. Rank 1 fails after epoch 0, of 10 steps, if none is missing."""

import os
import subprocess
import sys
import time

import torch.distributed as dist
from parts import batch, ddp, join

host, port, world, started = sys.argv[1:]
if "RANK" not in os.environ:
    os.environ.update(MASTER_ADDR=host, MASTER_PORT=port, WORLD_SIZE=world, RANK="0")
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    for number in range(1, int(started)):
        subprocess.Popen([sys.executable, *sys.argv], env=os.environ | {"RANK": str(number)}, **silent)
rank, _ = join(20)  # mark: join
model, optimizer = ddp()
for epoch in range(2):
    for _ in range(10):
        optimizer.zero_grad()
        model(batch()).square().mean().backward()
        optimizer.step()
    time.sleep(0.5)  # rank 0 has received the last average by then
    metrics = {"loss": 1.0} if rank else {"loss": 1.0, "val/f1": 0.5}
    print("rank", rank, "epoch", epoch, "f1", metrics["val/f1"], flush=True)  # mark: f1
dist.destroy_process_group()
