"""A rank that all-reduces, and says so by whatever clock it has: python -m tests.support.rank_elsewhere RANK FOLDER."""

import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

from ddptui.host.machine import own_clock
from ddptui.wire.connection import TOKEN
from ddptui.wire.messages import VERSION, Collective, Done, Hello, Step
from tests.support.leaving import leave
from workers.instruments.reporter import Reporter

WORLD, STEPS, WARMUP = 2, 60, 3
WORK_S = (0.01, 0.04)  # of each rank in a step: rank 0 waits for rank 1


def main(rank: int, folder: Path) -> None:
    reporter = Reporter(rank)
    reporter.send(
        Hello(
            version=VERSION, token=os.environ[TOKEN], rank=rank, world_size=WORLD, at_ns=time.monotonic_ns(), host="h",
            pid=os.getpid(), device="cpu", threads=1, torch=str(torch.__version__), clock=own_clock(),
        )
    )  # fmt: skip
    dist.init_process_group("gloo", init_method=f"file://{folder / 'meet'}", rank=rank, world_size=WORLD)
    for number in range(STEPS):
        reporter.send(step(rank, number))
    reporter.send(
        Done(
            rank=rank, at_ns=time.monotonic_ns(), correct=0, evaluated=0, parameters={}, buffers={},
            bottleneck_fired=0, bottleneck_ns=0,
        )
    )  # fmt: skip
    reporter.close()
    leave()


def step(rank: int, number: int) -> Step:
    begin = time.monotonic_ns()
    time.sleep(WORK_S[rank])
    entered = time.monotonic_ns()
    dist.all_reduce(torch.ones(100))
    end = time.monotonic_ns()
    return Step(
        rank=rank, step=number, epoch=0, warmup=number < WARMUP, begin_ns=begin, end_ns=end, samples=8, loss=1.0,
        phases_ns=(entered - begin, 0, 0, end - entered, 0),
        collectives=(Collective("all_reduce", 0, 400, entered, entered, entered, end),),
    )  # fmt: skip


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
