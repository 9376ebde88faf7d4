"""A compiled DDP with checkpointed activations, no_sync and a GradScaler. For the arguments, see late.py."""

import contextlib

import torch
import torch.distributed as dist
from late import BATCH, EPOCHS, Late, collate, network, samples
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, DistributedSampler

ACCUMULATE = 2


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.network = network()

    def forward(self, inputs):
        return checkpoint(self.network, inputs, use_reentrant=False)


dist.init_process_group("gloo")
torch.manual_seed(0)
ddp = DistributedDataParallel(Net())
model = torch.compile(ddp)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cpu")
data = samples()
sampler = DistributedSampler(data)
loader = DataLoader(data, BATCH, sampler=sampler, collate_fn=collate)
for epoch in range(EPOCHS):
    sampler.set_epoch(epoch)
    for number, (inputs, labels) in enumerate(loader, 1):
        is_last = number % ACCUMULATE == 0
        with contextlib.nullcontext() if is_last else ddp.no_sync():
            with torch.autocast("cpu"):
                loss = nn.functional.cross_entropy(Late.apply(model(inputs)), labels) / ACCUMULATE
            scaler.scale(loss).backward()
        if is_last:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    print(f"rank {dist.get_rank()} epoch {epoch} loss {loss.item():.4f}")
dist.destroy_process_group()
