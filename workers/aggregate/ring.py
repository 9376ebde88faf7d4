"""The ring all_reduce by hand: the ranks stand in a circle; each sends to its right only, and receives from its left.

The tensor is cut into as many chunks as there are ranks. A chunk travels once around the circle to be summed up, and
once more to be known to all. Every link carries 2 (n - 1) / n of the tensor, however many ranks there are, and no rank
does more than the others. (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations",
2009.)
"""

import math

import torch
import torch.distributed as dist
from torch import Tensor

from workers.aggregate.buffer import in_memory_order
from workers.aggregate.strategy import Strategy

BLOCK = 8 * 2**20  # bytes that travel at a time: what has been received is added up while the caches still have it


class Ring(Strategy):
    room: Tensor | None = None  # for what is received; kept, since fresh memory costs more than what is done with it

    def average(self, tensors: list[Tensor]) -> None:
        for tensor in tensors:
            if self.room is None or self.room.dtype != tensor.dtype:
                self.room = room_for(tensor)
            ring_all_reduce(tensor, self.room)
            self.divide(tensor)


def room_for(tensor: Tensor) -> Tensor:
    """Room for a chunk of a block."""
    elements = BLOCK // tensor.element_size()
    return torch.empty(math.ceil(elements / dist.get_world_size()), dtype=tensor.dtype, device=tensor.device)


def ring_all_reduce(tensor: Tensor, room: Tensor) -> None:
    """Sum a tensor over all ranks, in place. The same bits come out on all: each chunk is summed once, in one order."""
    under_way: list[dist.Work] = []
    for block in in_memory_order(tensor).split(BLOCK // tensor.element_size()):
        under_way += sum_block(block, room)  # its last chunk may still come in while the next block is worked on
    wait(under_way)


def sum_block(block: Tensor, room: Tensor) -> list[dist.Work]:
    """Sum one block over all ranks; returns what to wait for."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    chunks = block.tensor_split(ranks)

    # Reduce-scatter: pass on what has been summed up so far, and add one's own to what comes in.
    # Afterwards rank r has the whole sum of chunk r + 1.
    for step in range(ranks - 1):
        chunk = chunks[(rank - step - 1) % ranks]
        incoming = room[: len(chunk)]
        wait(exchange(chunks[(rank - step) % ranks], incoming, rank, ranks))
        chunk += incoming

    # All-gather: pass on the sums.
    works: list[dist.Work] = []
    for step in range(ranks - 1):
        wait(works)
        works = exchange(chunks[(rank - step + 1) % ranks], chunks[(rank - step) % ranks], rank, ranks)
    return works


def exchange(outgoing: Tensor, incoming: Tensor, rank: int, ranks: int) -> list[dist.Work]:
    """Begin to send to the right and to receive from the left."""
    left, right = (rank - 1) % ranks, (rank + 1) % ranks
    if rank % 2 == 0:
        works = [dist.isend(outgoing, right), dist.irecv(incoming, left)]
    else:  # Every second one receives first: where a send lasts until it is received, all would wait for all.
        works = [dist.irecv(incoming, left), dist.isend(outgoing, right)]
    return [work for work in works if work is not None]  # which it would be for a rank outside the group


def wait(works: list[dist.Work]) -> None:
    for work in works:
        work.wait()
