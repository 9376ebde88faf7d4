"""Rank 1 has found 53 words in its shard, the others 50: their embeddings differ."""

import torch.distributed as dist
from parts import join
from torch import nn

rank, _ = join(6)
model = nn.parallel.DistributedDataParallel(nn.Embedding(53 if rank == 1 else 50, 8))  # mark: ddp
dist.destroy_process_group()
