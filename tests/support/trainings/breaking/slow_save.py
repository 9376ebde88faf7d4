"""After step 9, rank 0 writes a checkpoint to a disk that is slow. Arguments: how many seconds that takes, and how many
the collectives of the group may wait."""

import io
import sys
import time

import torch
import torch.distributed as dist
from parts import STEPS, batch, ddp, join

save_s, limit_s = map(float, sys.argv[1:])


class SlowDisk(io.BytesIO):
    is_late = True

    def write(self, data):
        if self.is_late:
            self.is_late = False
            time.sleep(save_s)  # mark: write
        return super().write(data)


def save(model):
    torch.save(model.state_dict(), SlowDisk())  # mark: save


rank, _ = join(limit_s)
model, optimizer = ddp()
for step in range(STEPS):
    optimizer.zero_grad()
    model(batch()).square().mean().backward()  # mark: backward
    optimizer.step()
    if rank == 0 and step == 9:
        save(model)
dist.destroy_process_group()
