"""A step under `flat` and `bucketed` against one under torch DDP: 2 ranks of 1 thread, in SCHED_BATCH.

Goal: at most 1.00 times, on `net` and on resnet18 with 32×32 images, 64 samples a step. In every round each strategy
makes one step, in an order that rotates; a step takes as long as on the slower rank. Medians of the rounds' ratios.

    python benchmarks/strategies.py [ROUNDS] [SAMPLES_A_STEP]
"""

import sys
import time
from collections.abc import Callable
from statistics import median, quantiles
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F

from benchmarks.ranks import join
from ddptui.config.trial import Trial
from ddptui.config.values import make_trial
from workers.aggregate import strategy_of
from workers.aggregate.strategy import gradients_of
from workers.rank.group import host_store
from workers.training.models import input_shape, make_model

MODELS = ("net", "resnet18")
STRATEGIES = ("ddp", "flat", "bucketed", "all_reduce", "none")
RANKS = 2
WARM_UP = 4


def stepper(trial: Trial) -> Callable[[], None]:
    """A model of its own under the trial's strategy; a call makes one step of the loop in workers/train.py."""
    torch.manual_seed(0)
    shape = input_shape(trial)
    assert shape is not None
    model = make_model(trial, shape, 10)
    strategy = strategy_of(trial)
    network = strategy.prepare(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.5)
    inputs, labels = torch.randn(trial.batch_size // RANKS, *shape), torch.randint(10, (trial.batch_size // RANKS,))

    def step() -> None:
        strategy.share_buffers(model)
        F.cross_entropy(network(inputs), labels).backward()
        strategy.average(gradients_of(model))
        optimizer.step()
        optimizer.zero_grad()

    return step


def timed(step: Callable[[], None]) -> float:
    """Milliseconds, on the slower rank."""
    dist.barrier()
    begin = time.perf_counter()
    step()
    took = torch.tensor((time.perf_counter() - begin) * 1e3)
    dist.all_reduce(took, op=dist.ReduceOp.MAX)
    return took.item()


def run_rank(rank: int, port: int, rounds: int, samples: int) -> None:
    join(rank, RANKS, port)
    for model in MODELS:
        steps = {name: stepper(trial(model, name, samples)) for name in STRATEGIES}
        times: dict[str, list[float]] = {name: [] for name in STRATEGIES}
        for number in range(WARM_UP + rounds):
            turn = number % len(STRATEGIES)
            for name in [*STRATEGIES[turn:], *STRATEGIES[:turn]]:
                took = timed(steps[name])
                if number >= WARM_UP:
                    times[name].append(took)
        if rank == 0:
            report(model, times)
    dist.destroy_process_group()


def trial(model: str, strategy: str, samples: int) -> Trial:
    values: dict[str, Any] = {"model": model, "strategy": strategy, "dataset": "random", "batch_size": samples}
    return make_trial(values)


def report(model: str, times: dict[str, list[float]]) -> None:
    print(f"{model}, {len(times['ddp'])} rounds")
    for name, own in times.items():
        ratios = [a / b for a, b in zip(own, times["ddp"], strict=True)]
        low, _, high = quantiles(ratios, n=4)
        print(f"  {name:12} {median(own):7.2f} ms   ratio {median(ratios):.3f}   middle half {low:.2f} to {high:.2f}")


def main() -> None:
    rounds, samples = int(sys.argv[1]) if len(sys.argv) > 1 else 200, int(sys.argv[2]) if len(sys.argv) > 2 else 64
    store = host_store()
    start: Callable[..., object] = mp.start_processes
    start(run_rank, (store.port, rounds, samples), nprocs=RANKS, start_method="spawn")


if __name__ == "__main__":
    main()
