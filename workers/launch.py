"""torch.distributed.launch: the launcher runs this file once for each rank; its environment says which one it is.

python -m torch.distributed.launch --standalone --nproc_per_node=2 -m workers.launch strategy=all_reduce epochs=3
"""

import os
import sys

from workers.rank import forked
from workers.rank.group import FROM_ENVIRONMENT
from workers.rank.node import choose_interface
from workers.rank.process import read_trial
from workers.run_rank import run_rank


def main() -> None:
    world_size, rank = os.environ["WORLD_SIZE"], int(os.environ["RANK"])
    first = rank - int(os.environ["LOCAL_RANK"])
    local_ranks = range(first, first + int(os.environ["LOCAL_WORLD_SIZE"]))
    fields = [argument for argument in sys.argv[1:] if not argument.startswith("--local")]  # launch adds --local-rank
    trial = read_trial(["launch=launch", *fields, f"world_size={world_size}"])
    if int(os.environ.get("GROUP_WORLD_SIZE", "1")) > 1:  # nodes
        choose_interface(os.environ["MASTER_ADDR"])
    run_rank(trial, rank, local_ranks, FROM_ENVIRONMENT)


def launch_ranks() -> None:
    """What torch.distributed.launch does, in this process: fork the ranks, which run `main`. The first argument is
    their number."""
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch  # here: ranks that start cold need none

    config = LaunchConfig(  # as with --standalone
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=int(sys.argv.pop(1)),
        run_id="none",
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=0,
        start_method="fork",
    )
    elastic_launch(config, run_forked_rank)()


def run_forked_rank() -> None:
    """`main`, in a process that torch's launcher has forked, with its handlers of signals."""
    forked.reset_signals()
    main()


if __name__ == "__main__":
    main()
