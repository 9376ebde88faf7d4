"""What the lab says a collective takes, against an independent clock (primitives_reference.py): 2 and 4 ranks in
SCHED_BATCH, the two in turn, a hundred calls each; medians of the pairs' ratios.

Goal: within 5 % from 1 MB on, within 10 % at 4 KB. Two ways, since two launches of the very same thing differ by more
than that on a small machine: `launches` compares whole launches, as a user would; `calls` lets the same ranks time with
the one clock and then with the other, many times, so that only the clocks differ.

`cadences` compares eight calls in flight with one after the other, at 4 KB on 2 ranks: what a call takes, by the lab's
clock, the two in turn in the same ranks.

    python -m benchmarks.primitives calls|launches|cadences [PAIRS] [OPERATION…]
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean, median, quantiles

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from benchmarks.primitives_reference import call_of, streaming
from benchmarks.ranks import join
from workers.instruments.clock import Clock
from workers.primitives import PRIMITIVES
from workers.primitives.primitive import Setting
from workers.primitives.rounds import MOST_IN_FLIGHT, Pipelined, Timer
from workers.rank.group import host_store

OPERATIONS = ("all_reduce", "broadcast", "reduce", "all_gather", "reduce_scatter", "all_to_all")
IN_PARTS = ("all_gather", "reduce_scatter", "all_to_all")
SIZES = (4096, 2**20, 16 * 2**20)
RANKS = (2, 4)
ITERATIONS = 100
HERE = Path(__file__).parent
PRESET = f"""
kind = "primitives"
[[trial]]
primitives = "measure"
operations = ["{{operation}}"]
world_size = {{ranks}}
threads = 1
sched_batch = true
warmup_steps = 5
iterations = {ITERATIONS}
cell_s = 3600
min_bytes = {SIZES[0]}
max_bytes = {SIZES[-1]}
step_factor = 4
"""


def ours_in_ranks(operation: str, size: int, rank: int, ranks: int, in_flight: int = 1) -> float:
    """µs a call, by the lab's clock, from within the ranks."""
    elements = size // 4 // (ranks if operation in IN_PARTS else 1)
    setting = Setting(rank, ranks, 0, elements, torch.float32, torch.device("cpu"))
    kind = PRIMITIVES[operation]
    timer = Timer(Pipelined(setting, kind, in_flight) if in_flight > 1 else kind(setting), Clock())
    timer.warm_up(calls=5, most=ITERATIONS // in_flight, most_s=1e9)  # and one round
    timer.round(after_barrier=False)
    mean = torch.tensor([fmean(timer.lengths_ns) / in_flight])
    dist.all_reduce(mean)
    return mean.item() / ranks / 1e3


def run_rank(rank: int, port: int, ranks: int, pairs: int, operations: list[str], way: str) -> None:
    join(rank, ranks, port)
    for operation, size in product(operations, SIZES if way == "calls" else SIZES[:1]):
        found = []
        for number in range(pairs):
            alone = partial(ours_in_ranks, operation, size, rank, ranks)
            others = {
                "calls": lambda o=operation, s=size: streaming(call_of(o, s, ranks), ITERATIONS, ranks),
                "cadences": partial(alone, MOST_IN_FLIGHT),
            }
            sides = [alone, others[way]]
            order = (0, 1) if number % 2 else (1, 0)
            took = {side: sides[side]() for side in order}
            found.append((took[0], took[1]))
        if rank == 0:
            report(operation, size, ranks, found, "reference" if way == "calls" else "pipelined")
    dist.destroy_process_group()


def calls(pairs: int, operations: list[str]) -> None:
    for ranks in RANKS:
        store = host_store()
        mp.start_processes(run_rank, (store.port, ranks, pairs, operations, "calls"), ranks, start_method="spawn")


def cadences(pairs: int, operations: list[str]) -> None:
    store = host_store()
    mp.start_processes(run_rank, (store.port, 2, pairs, operations, "cadences"), 2, start_method="spawn")


def launches(pairs: int, operations: list[str]) -> None:
    for ranks, operation in product(RANKS, operations):
        found: dict[int, list[tuple[float, float]]] = {size: [] for size in SIZES}
        for number in range(pairs):
            sides = [lambda o=operation, r=ranks: ours(o, r), lambda o=operation, r=ranks: theirs(o, r)]
            order = (0, 1) if number % 2 else (1, 0)
            took = {side: dict(sides[side]()) for side in order}
            for size in SIZES:
                found[size].append((took[0][size], took[1][size]))
        for size in SIZES:
            report(operation, size, ranks, found[size])


def ours(operation: str, ranks: int) -> Iterator[tuple[int, float]]:
    with tempfile.TemporaryDirectory() as runs:
        preset = Path(runs) / "one.toml"
        preset.write_text(PRESET.format(operation=operation, ranks=ranks))
        command = ["--preset", str(preset), "--no-ui", "--json", "--runs", runs]
        done = subprocess.run([sys.executable, "-m", "ddptui", *command], capture_output=True, check=True)
    for cell in json.loads(done.stdout)["trials"][0]["primitives"][0]["cells"]:
        yield cell["bytes"], cell["time_us"]["mean"]


def theirs(operation: str, ranks: int) -> Iterator[tuple[int, float]]:
    sizes = [str(4096 * 4**step) for step in range(7)]  # the same sizes, in the same order
    command = [sys.executable, str(HERE / "primitives_reference.py"), operation, str(ranks), str(ITERATIONS), *sizes]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    for line in done.stdout.splitlines():
        _, size, us = line.split()
        yield int(size), float(us)


def report(operation: str, size: int, ranks: int, pairs: list[tuple[float, float]], other: str = "reference") -> None:
    ours, theirs = (median(side) for side in zip(*pairs, strict=True))
    low, ratio, high = quantiles([a / b for a, b in pairs], n=4) if len(pairs) > 1 else [pairs[0][0] / pairs[0][1]] * 3
    figures = f"{ours:9.1f} µs  {other} {theirs:9.1f} µs  ratio {ratio:.3f}  middle half {low:.2f} to {high:.2f}"
    print(f"{operation:15} {ranks} ranks {size:9} bytes  {figures}", flush=True)


def main() -> None:
    way, *rest = sys.argv[1:] or ["calls"]
    pairs = int(rest[0]) if rest else 21
    {"calls": calls, "launches": launches, "cadences": cadences}[way](pairs, rest[1:] or list(OPERATIONS))


if __name__ == "__main__":
    main()
