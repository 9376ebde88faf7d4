"""The iterable of rank 1 has 9 batches and that of rank 0 has 12; then all ranks validate."""

import torch
import torch.distributed as dist
from parts import batch, ddp, join
from torch.utils.data import DataLoader, IterableDataset


class Shard(IterableDataset):
    def __init__(self, batches):
        self.batches = batches

    def __iter__(self):
        return (batch() for _ in range(self.batches))


rank, _ = join(6)
model, optimizer = ddp()
for inputs in DataLoader(Shard(9 if rank == 1 else 12), batch_size=None):
    optimizer.zero_grad()
    model(inputs).square().mean().backward()  # mark: backward
    optimizer.step()
with torch.no_grad():
    for inputs in DataLoader(Shard(4), batch_size=None):
        loss = model.module(inputs).square().mean().reshape(1)
        dist.all_reduce(loss)  # mark: validation
dist.destroy_process_group()
