"""Small all_reduces with and without SCHED_BATCH: 87 KB, the gradients of `net`, between 2 ranks of 1 thread.

A fresh pair of ranks for each, in turn; the policy is set before the group is made, as `sched_batch = true` does it.
Between two calls a rank computes for a millisecond, as it would in training.

    python benchmarks/sched_batch.py [PAIRS] [CALLS]
"""

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import mean, median

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from benchmarks.ranks import join
from workers.rank.group import host_store

RANKS = 2
FLOATS = 21_840  # parameters of `net`
WARM_UP = 20
COMPUTE_S = 0.001
A_TICK_MS = 3.0  # a call as long as this has waited for the scheduler


def run_rank(rank: int, port: int, batch: bool, calls: int, folder: str) -> None:
    join(rank, RANKS, port, batch=batch)
    gradients = torch.ones(FLOATS)
    times = []
    for _ in range(WARM_UP + calls):
        compute()
        begin = time.perf_counter()
        dist.all_reduce(gradients, op=dist.ReduceOp.MAX)
        times.append((time.perf_counter() - begin) * 1e3)
    if rank == 0:
        Path(folder, "times").write_text(" ".join(map(str, times[WARM_UP:])))
    dist.destroy_process_group()


def compute() -> None:
    until = time.perf_counter() + COMPUTE_S
    while time.perf_counter() < until:
        pass


def measured(batch: bool, calls: int) -> list[float]:
    """Milliseconds of each call on rank 0."""
    store = host_store()
    start: Callable[..., object] = mp.start_processes
    with tempfile.TemporaryDirectory() as folder:
        start(run_rank, (store.port, batch, calls, folder), nprocs=RANKS, start_method="spawn")
        return [float(word) for word in Path(folder, "times").read_text().split()]


def main() -> None:
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    calls = int(sys.argv[2]) if len(sys.argv) > 2 else 500
    runs = [(measured(False, calls), measured(True, calls)) for _ in range(pairs)]
    for name, side in zip(("default", "SCHED_BATCH"), zip(*runs, strict=True), strict=True):
        means = [mean(times) for times in side]
        ticks = [sum(each > A_TICK_MS for each in times) / calls for times in side]
        print(f"{name:12} mean {median(means):.3f} ms   calls over {A_TICK_MS:g} ms: {median(ticks):.1%}")
    ratio = median(mean(batch) / mean(default) for default, batch in runs)
    print(f"ratio of the means {ratio:.2f}, median of {pairs} pairs")


if __name__ == "__main__":
    main()
