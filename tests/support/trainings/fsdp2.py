"""A training whose parameters, gradients and optimizer are sharded by fully_shard. For the arguments, see late.py."""

import torch
import torch.distributed as dist
from late import BATCH, EPOCHS, Late, collate, network, samples
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, DistributedSampler


class Checkpointed(nn.Module):
    """Computes what its forward has computed again in backward."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, inputs):
        return checkpoint(self.inner, inputs, use_reentrant=False)


dist.init_process_group("gloo")
torch.manual_seed(0)
model = nn.Sequential(*(Checkpointed(layer) for layer in network()))
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
for layer in (model[0], model[-1]):
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters())
data = samples()
sampler = DistributedSampler(data)
loader = DataLoader(data, BATCH, sampler=sampler, collate_fn=collate)
for epoch in range(EPOCHS):
    sampler.set_epoch(epoch)
    for inputs, labels in loader:
        loss = nn.functional.cross_entropy(Late.apply(model(inputs)), labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    print(f"rank {dist.get_rank()} epoch {epoch} loss {loss.item():.4f}")
dist.destroy_process_group()
