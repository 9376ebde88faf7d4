"""The ring in workers/aggregate/ring.py against gloo's own all_reduce, at 1, 16 and 64 MB: 2 ranks in SCHED_BATCH.

Goal: at most 1.10 times. The two in turn, medians of the rounds' ratios. A turn carries 16 MB at least (16 calls of
1 MB: a single one hardly lasts longer than the ranks are apart when they begin); it ends on the slower rank.

    python benchmarks/ring.py [ROUNDS] [RANKS]
"""

import sys
from collections.abc import Callable
from functools import partial
from statistics import median, quantiles

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from benchmarks.ranks import join
from benchmarks.strategies import timed
from workers.aggregate.ring import make_buffer, ring_all_reduce
from workers.rank.group import host_store

MB = 2**20
SIZES_MB = (1, 16, 64)
TURN_MB = 16
WARM_UP = 5


def run_rank(rank: int, port: int, rounds: int, ranks: int) -> None:
    join(rank, ranks, port)
    for size in SIZES_MB:
        calls = max(1, TURN_MB // size)
        tensor = torch.ones(size * MB // 4)
        ways = {"ring": partial(ring_all_reduce, tensor, make_buffer(tensor)), "gloo": partial(dist.all_reduce, tensor)}
        times = []
        for number in range(WARM_UP + rounds):
            order = ["ring", "gloo"] if number % 2 else ["gloo", "ring"]
            took = {}
            for name in order:
                tensor.fill_(1)  # summed up again and again, it would overflow
                took[name] = timed(partial(again, ways[name], calls)) / calls
            times.append((took["ring"], took["gloo"]))
        if rank == 0:
            report(size, times[WARM_UP:])
    dist.destroy_process_group()


def again(call: Callable[[], object], times: int) -> None:
    for _ in range(times):
        call()


def report(size: int, times: list[tuple[float, float]]) -> None:
    ours, theirs = (median(side) for side in zip(*times, strict=True))
    low, ratio, high = quantiles([a / b for a, b in times], n=4)
    spread = f"middle half {low:.2f} to {high:.2f}"
    print(f"{size:3} MB  ring {ours:6.2f} ms  gloo {theirs:6.2f} ms  ratio {ratio:.3f}  {spread}", flush=True)


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    ranks = int(sys.argv[2]) if len(sys.argv) > 2 else 2
    store = host_store()
    start: Callable[..., object] = mp.start_processes
    start(run_rank, (store.port, rounds, ranks), nprocs=ranks, start_method="spawn")


if __name__ == "__main__":
    main()
