"""An independent clock for collectives: what nccl-tests' streaming mode does, on gloo, in as few lines as it takes.

Warm up, one barrier, then so many calls one after the other; the wall time by their number, averaged over ranks.
Nothing of ddptui is imported. Prints a line a size: operation, bytes (as nccl-tests counts them), µs.

    python benchmarks/primitives_reference.py OPERATION RANKS ITERATIONS BYTES…
"""

import os
import sys
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

WARM_UP = 5


def call_of(operation: str, size: int, ranks: int) -> Callable[[], object]:
    whole = torch.zeros(size // 4)
    part = torch.zeros(size // 4 // ranks)
    parts = [torch.zeros(size // 4 // ranks) for _ in range(ranks)]
    others = [torch.zeros(size // 4 // ranks) for _ in range(ranks)]
    return {
        "all_reduce": lambda: dist.all_reduce(whole),
        "broadcast": lambda: dist.broadcast(whole, 0),
        "reduce": lambda: dist.reduce(whole, 0),
        "all_gather": lambda: dist.all_gather(parts, part),
        "reduce_scatter": lambda: dist.reduce_scatter(part, parts),
        "all_to_all": lambda: dist.all_to_all(others, parts),
    }[operation]


def streaming(call: Callable[[], object], iterations: int, ranks: int) -> float:
    """µs a call."""
    for _ in range(WARM_UP):
        call()
    dist.barrier()
    begin = time.perf_counter()
    for _ in range(iterations):
        call()
    took = torch.tensor([time.perf_counter() - begin])
    dist.all_reduce(took)
    return took.item() / ranks / iterations * 1e6


def run_rank(rank: int, operation: str, ranks: int, iterations: int, sizes: list[int], port: int) -> None:
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    torch.set_num_threads(1)
    store = dist.TCPStore("127.0.0.1", port, is_master=False)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks)
    for size in sizes:
        us = streaming(call_of(operation, size, ranks), iterations, ranks)
        if rank == 0:
            print(operation, size, f"{us:.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    name, ranks, iterations, *sizes = sys.argv[1], *map(int, sys.argv[2:])
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    mp.start_processes(run_rank, (name, ranks, iterations, sizes, store.port), nprocs=ranks, start_method="spawn")
