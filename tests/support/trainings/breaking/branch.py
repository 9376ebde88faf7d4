"""In step 10 of rank 1 a branch of the model is skipped, whose parameters then get no gradient."""

import torch
import torch.distributed as dist
from parts import STEPS, WIDTH, batch, join
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.boxes, self.mask = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 4), nn.Linear(WIDTH, 1)

    def forward(self, inputs, with_mask):
        hidden = self.body(inputs).relu()
        loss = self.boxes(hidden).square().mean()
        return loss + self.mask(hidden).square().mean() if with_mask else loss


rank, _ = join(6)
model = nn.parallel.DistributedDataParallel(Net())
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(STEPS):
    optimizer.zero_grad()
    loss = model(batch(), with_mask=rank != 1 or step != 10)  # mark: forward
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
