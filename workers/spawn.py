"""mp.spawn: torch starts the ranks, waits for all of them, and ends the rest when one fails.

python -m workers.spawn world_size=2 strategy=all_reduce epochs=3
"""

import sys

import torch.multiprocessing as mp

from ddptui.config.trial import Trial
from workers.rank.group import Meeting, host_store, join_group, leave_group, open_meeting
from workers.rank.node import Node, this_node
from workers.rank.process import rank_process, read_trial


def run_rank(local_rank: int, trial: Trial, node: Node, meeting: Meeting) -> None:
    from workers.work import work  # not at the top: the parent trains nothing, and starts sooner without

    with rank_process(trial, node.ranks[local_rank], node.ranks) as me:
        join_group(me, meeting)
        work(me)
        leave_group()


def main() -> None:
    trial = read_trial(["launch=spawn", *sys.argv[1:]])
    node = this_node(trial)
    meeting, port = open_meeting(trial, node)
    if trial.start_method == "forkserver":
        mp.set_forkserver_preload(["workers.train"])
    # mp.spawn is start_processes with start_method="spawn", and waits for them at once
    ranks = mp.start_processes(
        run_rank, (trial, node, meeting), nprocs=len(node.ranks), start_method=trial.start_method, join=False
    )
    _store = host_store(port) if port else None
    try:
        while not ranks.join():
            pass
    except mp.ProcessExitedException as failure:
        sys.exit(f"rank {node.ranks[failure.error_index]} ended with exit code {failure.exit_code}")
    except mp.ProcessRaisedException as failure:
        sys.exit(f"rank {node.ranks[failure.error_index]} ended with exit code 1")


if __name__ == "__main__":
    main()
