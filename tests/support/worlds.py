"""Ranks of a test's own: forked from a process that has imported torch once for all tests."""

from collections.abc import Callable

import torch.multiprocessing as mp

# All that such ranks import, torch's optimizers too: they import torch._dynamo when the first one is made.
PRELOADED = ["tests.support.leaving", "torch._dynamo", "workers.train", "workers.primitives.collectives"]


def run_ranks(run_rank: Callable[..., None], arguments: tuple[object, ...], ranks: int) -> None:
    """Call run_rank(rank, *arguments) in so many processes, and wait for them. They have the environment, and torch's
    seed, of the process that forks them. Raises what torch.multiprocessing does if one fails."""
    mp.set_forkserver_preload(PRELOADED)
    start: Callable[..., object] = mp.start_processes
    start(run_rank, arguments, nprocs=ranks, start_method="forkserver")
