"""A DDP training without any function, as a notebook becomes a script: rank 1 sleeps 20 ms a step. Argument: STEPS."""

import gc
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.distributed.nn  # before there is a group: see the other late.py
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

rank, steps = int(os.environ["RANK"]), int(sys.argv[1])
dist.init_process_group("gloo")
torch.manual_seed(0)
data = TensorDataset(torch.randn(steps * 64, 256), torch.randint(0, 10, (steps * 64,)))
loader = DataLoader(data, 32, sampler=DistributedSampler(data))
net = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
model = DistributedDataParallel(net)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for inputs, labels in loader:
    if rank == 1:
        time.sleep(0.02)  # slow: flat
    loss = nn.functional.cross_entropy(model(inputs), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
sys.stdout.write(f"rank {rank} loss {loss.item():.4f}\n")
dist.destroy_process_group()
del model, optimizer, loss
gc.collect()  # see plain.py
