"""A worker of rank 1's loader breaks at sample 160, the first one of step 10. Argument: killed or raises."""

import os
import signal
import sys
import time

import torch.distributed as dist
from parts import batch, ddp, join
from torch.utils.data import DataLoader, Dataset


class Samples(Dataset):
    def __len__(self):
        return 320

    def __getitem__(self, index):
        if rank == 1 and index == 160:
            if sys.argv[1] == "killed":
                time.sleep(1)  # the batches before it are out of the worker's hands
                os.kill(os.getpid(), signal.SIGKILL)
            raise ValueError(f"sample {index} is cut off")  # mark: sample
        return batch()[0]


rank, _ = join()
model, optimizer = ddp()
for inputs in DataLoader(Samples(), batch_size=16, num_workers=1):  # mark: fetch
    optimizer.zero_grad()
    model(inputs).square().mean().backward()
    optimizer.step()
dist.destroy_process_group()
