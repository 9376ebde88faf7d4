"""mp.Process: start each rank yourself, wait for each, and end the rest yourself when one fails.

python -m workers.process world_size=2 strategy=all_reduce epochs=3
"""

import sys
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from typing import Any

import torch.multiprocessing as mp

from ddptui.preset import Trial
from workers.group import host_store, join_group, leave_group
from workers.rank import rank_process, read_trial


def run_rank(rank: int, trial: Trial, port: int) -> None:
    from workers.work import work  # not at the top: the parent trains nothing, and starts sooner without

    with rank_process(trial, rank) as me:
        join_group(me, port)
        work(me)
        leave_group()


def main() -> None:
    trial = read_trial(["launch=process", *sys.argv[1:]])
    store = host_store()
    context: Any = mp.get_context(trial.start_method)
    if trial.start_method == "forkserver":
        context.set_forkserver_preload(["workers.train"])
    ranks = [context.Process(target=run_rank, args=(rank, trial, store.port)) for rank in range(trial.world_size)]
    for process in ranks:
        process.start()

    wait_for_all(ranks)


def wait_for_all(ranks: list[BaseProcess]) -> None:
    """Join every rank. When one fails, the others are of no use: they may sit in a collective that never ends."""
    running: dict[object, BaseProcess] = {process.sentinel: process for process in ranks}
    while running:
        for sentinel in wait([process.sentinel for process in running.values()]):
            ended = running.pop(sentinel)
            ended.join()
            if ended.exitcode:
                for process in running.values():
                    process.terminate()
                sys.exit(f"rank {ranks.index(ended)} ended with exit code {ended.exitcode}")


if __name__ == "__main__":
    main()
