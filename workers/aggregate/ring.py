"""The ring all_reduce by hand: each rank sends only to its right neighbor, and receives only from its left one.

The tensor is split into n chunks. Each chunk travels once around the ring to be summed, and once more to reach all
ranks. Every link carries the same traffic, which hardly grows with the number of ranks, and no rank does more than the
others. (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009.)

    calls    4 (n - 1) per tensor of up to 8 MB: 2 (n - 1) sends and as many receives
    sends    2 (n - 1) / n × S
    latency  2 (n - 1) × T messages
"""

import math

import torch
import torch.distributed as dist
from torch import Tensor

from workers.aggregate.buffer import in_memory_order
from workers.aggregate.strategy import Strategy

BLOCK = 8 * 2**20  # bytes reduced at a time: a received chunk is added while it is still in the caches


class Ring(Strategy):
    """One ring all_reduce per tensor."""

    received: Tensor | None = None  # receives a chunk; reused, since fresh memory costs more than the addition

    def average(self, tensors: list[Tensor]) -> None:
        for tensor in tensors:
            if self.received is None or self.received.dtype != tensor.dtype:
                self.received = make_buffer(tensor)
            ring_all_reduce(tensor, self.received)
            self.divide(tensor)


def make_buffer(tensor: Tensor) -> Tensor:
    """A buffer for one chunk of a block, of the tensor's dtype and device."""
    elements = BLOCK // tensor.element_size()
    return torch.empty(math.ceil(elements / dist.get_world_size()), dtype=tensor.dtype, device=tensor.device)


def ring_all_reduce(tensor: Tensor, received: Tensor) -> None:
    """Sum a tensor over all ranks, in place. All ranks get the same bits: each chunk is summed once, in one order."""
    pending: list[dist.Work] = []
    for block in in_memory_order(tensor).split(BLOCK // tensor.element_size()):
        pending += sum_block(block, received)  # the last chunk may still arrive while the next block is summed
    wait(pending)


def sum_block(block: Tensor, received: Tensor) -> list[dist.Work]:
    """Sum one block over all ranks, in place. Returns the transfers to wait for."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    chunks = block.tensor_split(ranks)

    # Reduce-scatter: send the partial sum to the right, and add this rank's own chunk to the one that arrives.
    # Afterwards rank r has the complete sum of chunk r + 1.
    for step in range(ranks - 1):
        chunk = chunks[(rank - step - 1) % ranks]
        incoming = received[: len(chunk)]
        wait(exchange(chunks[(rank - step) % ranks], incoming, rank, ranks))
        chunk += incoming

    # All-gather: send the complete sums to the right.
    works: list[dist.Work] = []
    for step in range(ranks - 1):
        wait(works)
        works = exchange(chunks[(rank - step + 1) % ranks], chunks[(rank - step) % ranks], rank, ranks)
    return works


def exchange(outgoing: Tensor, incoming: Tensor, rank: int, ranks: int) -> list[dist.Work]:
    """Begin to send to the right and to receive from the left. Returns the transfers to wait for."""
    left, right = (rank - 1) % ranks, (rank + 1) % ranks
    if rank % 2 == 0:
        works = [dist.isend(outgoing, right), dist.irecv(incoming, left)]
    else:  # Odd ranks receive first: where a send blocks until it is received, all ranks would deadlock.
        works = [dist.irecv(incoming, left), dist.isend(outgoing, right)]
    return [work for work in works if work is not None]  # torch returns None on ranks outside the group


def wait(works: list[dist.Work]) -> None:
    """Wait until all of these transfers are over."""
    for work in works:
        work.wait()
