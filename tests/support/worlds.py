"""Ranks of a test's own: forked from a process that has imported torch once for all tests."""

import os
from collections.abc import Callable
from typing import Any

import torch
import torch.multiprocessing as mp

from ddptui.config.catalog import STRATEGIES
from ddptui.config.trial import Trial
from workers.instruments.delays import Delays
from workers.instruments.reporter import Reporter
from workers.rank.process import Rank

# All that such ranks import, torch's optimizers too: they import torch._dynamo when the first one is made.
PRELOADED = ["tests.support.leaving", "torch._dynamo", "workers.single", "workers.primitives.operations"]


def run_ranks(run_rank: Callable[..., None], arguments: tuple[object, ...], ranks: int) -> None:
    """Call run_rank(rank, *arguments) in so many processes, and wait for them. They have the environment, and torch's
    seed, of the process that forks them. Raises what torch.multiprocessing does if one fails."""
    mp.set_forkserver_preload(PRELOADED)
    start: Callable[..., object] = mp.start_processes
    start(run_in_batch, (run_rank, arguments), nprocs=ranks, start_method="forkserver")


def run_in_batch(rank: int, run_rank: Callable[..., None], arguments: tuple[object, ...]) -> None:
    """On fewer cores than ranks, each message would wake a rank that takes the core from another one at once: with this
    policy it waits its turn, and all of them take two thirds of the time."""
    if hasattr(os, "SCHED_BATCH"):  # Linux
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    run_rank(rank, *arguments)


def start_rank(run_rank: Callable[..., None], *arguments: object) -> Any:
    """Begin with run_rank(*arguments) in one such process (multiprocessing.Process), and do not wait for it."""
    mp.set_forkserver_preload(PRELOADED)
    rank = mp.get_context("forkserver").Process(target=run_rank, args=arguments)
    rank.start()
    return rank


def one_rank(
    trial: Trial, number: int = 0, *, device: torch.device | str = "cpu", reporter: Reporter | None = None
) -> Rank:
    """A rank in this process, one of as many as the trial has processes."""
    ranks = 1 if trial.launch in ("single", "dp") else trial.world_size
    delays = Delays(trial.bottleneck, number)
    return Rank(trial, number, ranks, torch.device(device), reporter or Reporter(number), delays)


def tiny_trial(strategy: Any = None, **fields: Any) -> Trial:
    """A perceptron learns from random samples, in four batches an epoch; without a strategy, one rank does so alone."""
    usual: dict[str, Any] = {
        "launch": "spawn" if strategy else "single", "model": "mlp", "width": 5, "depth": 1, "dataset": "random",
        "shape": (6,), "classes": 3, "samples": 32, "batch_size": 8, "steps": 4, "warmup_steps": 0,
        "bucket_mb": 0.0001 if strategy and STRATEGIES[strategy].buckets else None,
    }  # fmt: skip
    return Trial(strategy=strategy, **(usual | fields))
