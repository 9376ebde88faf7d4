"""Ranks of a test's own: forked from a process that has imported torch once for all tests."""

import os
from collections.abc import Callable
from typing import Any

import torch
import torch.multiprocessing as mp

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
    trial: Trial,
    number: int = 0,
    ranks: int | None = None,
    *,
    device: torch.device | str = "cpu",
    reporter: Reporter | None = None,
) -> Rank:
    """A rank in this process, whom nothing delays. ranks: None: as many as the trial has."""
    delays = Delays((), number, seed=0, warmup_steps=0)
    ranks = trial.world_size if ranks is None else ranks
    return Rank(trial, number, ranks, torch.device(device), reporter or Reporter(number), delays)
