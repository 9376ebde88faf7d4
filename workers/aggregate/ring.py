"""The ring all_reduce by hand: the ranks stand in a circle; each sends to its right only, and receives from its left.

The tensor is cut into as many chunks as there are ranks. A chunk travels once around the circle to be summed up, and
once more to be known to all. Every link carries 2 (n - 1) / n of the tensor, however many ranks there are, and no rank
does more than the others. (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations",
2009.)
"""

import torch
import torch.distributed as dist
from torch import Tensor

from workers.aggregate.strategy import Strategy


class Ring(Strategy):
    def average(self, tensors: list[Tensor]) -> None:
        for tensor in tensors:
            ring_all_reduce(tensor)
            self.divide(tensor)


def ring_all_reduce(tensor: Tensor) -> None:
    """Sum a tensor over all ranks, in place. The same bits come out on all: each chunk is summed once, in one order."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    chunks = tensor.view(-1).tensor_split(ranks)
    received = torch.empty_like(chunks[0])  # as long as the longest

    # Reduce-scatter: pass on what has been summed up so far, and add one's own to what comes in.
    # Afterwards rank r has the whole sum of chunk r + 1.
    for step in range(ranks - 1):
        chunk = chunks[(rank - step - 1) % ranks]
        exchange(chunks[(rank - step) % ranks], received[: len(chunk)])
        chunk += received[: len(chunk)]

    # All-gather: pass on the sums.
    for step in range(ranks - 1):
        exchange(chunks[(rank - step + 1) % ranks], chunks[(rank - step) % ranks])


def exchange(outgoing: Tensor, incoming: Tensor) -> None:
    """Send to the right while receiving from the left. A tensor with fewer elements than ranks has empty chunks."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    works = []
    # Every second rank receives first: where a send lasts until somebody receives, they would all wait for each other.
    for sends in (True, False) if rank % 2 == 0 else (False, True):
        if sends and len(outgoing):
            works.append(dist.isend(outgoing, (rank + 1) % ranks))
        if not sends and len(incoming):
            works.append(dist.irecv(incoming, (rank - 1) % ranks))
    for work in works:
        if work is not None:  # which it is for a rank outside the group only
            work.wait()
