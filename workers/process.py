"""mp.Process: start each rank yourself, wait for each, and end the rest yourself when one fails.

python -m workers.process world_size=2 strategy=all_reduce epochs=3
"""

import sys
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from typing import Any

import torch.multiprocessing as mp

from ddptui.config.trial import Trial
from workers.rank.group import Meeting, host_store, join_group, leave_group, open_meeting
from workers.rank.node import Node, this_node
from workers.rank.process import rank_process, read_trial


def run_rank(rank: int, trial: Trial, node: Node, meeting: Meeting) -> None:
    from workers.work import work  # not at the top: the parent trains nothing, and starts sooner without

    with rank_process(trial, rank, node.ranks) as me:
        join_group(me, meeting)
        work(me)
        leave_group()


def main() -> None:
    trial = read_trial(["launch=process", *sys.argv[1:]])
    node = this_node(trial)
    meeting, port = open_meeting(trial, node)
    context: Any = mp.get_context(trial.start_method)
    if trial.start_method == "forkserver":
        context.set_forkserver_preload(["workers.train"])
    ranks = {rank: context.Process(target=run_rank, args=(rank, trial, node, meeting)) for rank in node.ranks}
    for process in ranks.values():
        process.start()

    _store = host_store(port) if port else None
    wait_for_all(ranks)


def wait_for_all(ranks: dict[int, BaseProcess]) -> None:
    """Join every rank. When one fails, the others are of no use: they may sit in a collective that never ends."""
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
