"""In step 10, the forward pass of rank 1 takes 8 s; then the training goes on, and ends well."""

import time

import torch
import torch.distributed as dist
from parts import STEPS, WIDTH, batch, join
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.calls = nn.Linear(WIDTH, 1), 0

    def forward(self, inputs):
        self.calls += 1
        if rank == 1 and self.calls == 11:
            time.sleep(8)  # mark: forward
        return self.layer(inputs)


rank, _ = join()
model = nn.parallel.DistributedDataParallel(Net())
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(STEPS):
    optimizer.zero_grad()
    model(batch()).square().mean().backward()  # mark: backward
    optimizer.step()
dist.destroy_process_group()
