"""A ring's ranks send to the right and receive from the left. NCCL makes what a rank has begun one after the other, and
a large send ends only when it is received: the order in which ranks begin must let all of them end."""

import pytest
import torch
import torch.distributed as dist

from workers.aggregate import ring

Transfer = tuple[int, int]  # from a rank to another


def begun(ranks: int, monkeypatch: pytest.MonkeyPatch) -> list[list[Transfer]]:
    """Of each rank, the transfers in which it takes part, in the order in which it begins them."""
    queues: list[list[Transfer]] = []
    for rank in range(ranks):
        queue: list[Transfer] = []
        monkeypatch.setattr(dist, "isend", lambda _, to, rank=rank, queue=queue: queue.append((rank, to)))
        monkeypatch.setattr(dist, "irecv", lambda _, of, rank=rank, queue=queue: queue.append((of, rank)))
        ring.exchange(torch.ones(1), torch.empty(1), rank, ranks)
        queues.append(queue)
    return queues


def left_over(queues: list[list[Transfer]]) -> list[list[Transfer]]:
    """The transfers that never end: one ends when it is the next of both of its ranks."""
    progress = True
    while progress:
        progress = False
        for queue in queues:
            if queue and all(queues[rank][:1] == queue[:1] for rank in queue[0]):
                sender, receiver = queue[0]
                del queues[sender][0], queues[receiver][0]
                progress = True
    return [queue for queue in queues if queue]


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_every_transfer_ends(ranks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    queues = begun(ranks, monkeypatch)
    assert [len(queue) for queue in queues] == [2] * ranks
    assert left_over(queues) == []
