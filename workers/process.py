"""Launcher with mp.Process: it starts each rank itself, waits for them, and ends the others when one fails.

python -m workers.process world_size=2 strategy=all_reduce epochs=3
"""

import gc
import sys
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from typing import Any

import torch.multiprocessing as mp

from workers.rank.group import host_store, open_rendezvous, this_node
from workers.rank.process import read_trial
from workers.run_rank import run_rank


def main() -> None:
    """Start this node's ranks, and wait for them. The command line describes the trial."""
    trial = read_trial(["launch=process", *sys.argv[1:]])
    node = this_node(trial)
    rendezvous, port = open_rendezvous(trial, node)
    context: Any = mp.get_context(trial.start_method)
    if trial.start_method == "forkserver":
        context.set_forkserver_preload(["workers.preload"])
    ranks = {rank: context.Process(target=run_rank, args=(trial, rank, node.ranks, rendezvous)) for rank in node.ranks}
    for process in ranks.values():
        process.start()
    _store = host_store(port) if port else None  # after the last fork: the store has a thread
    gc.freeze()  # else Python's last garbage collection would walk all imports for half a second
    wait_for_all(ranks)


def wait_for_all(ranks: dict[int, BaseProcess]) -> None:
    """Join every rank. If one fails, terminate the others, which may be blocked in a collective that never ends."""
    running: dict[object, int] = {process.sentinel: rank for rank, process in ranks.items()}
    while running:
        for sentinel in wait([ranks[rank].sentinel for rank in running.values()]):
            rank = running.pop(sentinel)
            ranks[rank].join()
            if ranks[rank].exitcode:
                for other in running.values():
                    ranks[other].terminate()
                sys.exit(f"rank {rank} ended with exit code {ranks[rank].exitcode}")


if __name__ == "__main__":
    main()
