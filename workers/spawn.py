"""Launcher with mp.spawn: torch starts the ranks, waits for them, and ends the others when one fails.

python -m workers.spawn world_size=2 strategy=all_reduce epochs=3
"""

import gc
import sys

import torch.multiprocessing as mp

from ddptui.config.preset import NodeRanks
from ddptui.config.trial import Trial
from workers.rank.group import Rendezvous, host_store, open_rendezvous, this_node
from workers.rank.process import read_trial
from workers.run_rank import run_rank


def run_local_rank(local_rank: int, trial: Trial, node: NodeRanks, rendezvous: Rendezvous) -> None:
    """Run one rank. mp.spawn calls this in each process, with a number that counts from 0 on each node."""
    run_rank(trial, node.ranks[local_rank], node.ranks, rendezvous)


def main() -> None:
    """Start this node's ranks, and wait for them. The command line describes the trial."""
    trial = read_trial(["launch=spawn", *sys.argv[1:]])
    node = this_node(trial)
    rendezvous, port = open_rendezvous(trial, node)
    if trial.start_method == "forkserver":
        mp.set_forkserver_preload(["workers.preload"])
    # mp.spawn is start_processes with start_method="spawn" and join=True.
    ranks = mp.start_processes(
        run_local_rank, (trial, node, rendezvous), nprocs=len(node.ranks), start_method=trial.start_method, join=False
    )
    _store = host_store(port) if port else None  # after the last fork: the store has a thread
    gc.freeze()  # else Python's last garbage collection would walk all imports for half a second
    try:
        while not ranks.join():
            pass
    except mp.ProcessExitedException as failure:
        sys.exit(f"rank {node.ranks[failure.error_index]} ended with exit code {failure.exit_code}")
    except mp.ProcessRaisedException as failure:
        sys.exit(f"rank {node.ranks[failure.error_index]} ended with exit code 1")


if __name__ == "__main__":
    main()
