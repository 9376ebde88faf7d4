"""Entry point for torch.distributed.launch, which runs this file once per rank; environment variables give the rank.

python -m torch.distributed.launch --standalone --nproc_per_node=2 -m workers.launch strategy=all_reduce epochs=3
"""

import os
import sys

from workers.rank import forked
from workers.rank.group import FROM_ENVIRONMENT, choose_interface
from workers.rank.process import read_trial
from workers.run_rank import run_rank


def main() -> None:
    """Run this process as the rank that the environment of torch's launcher describes."""
    world_size, rank = os.environ["WORLD_SIZE"], int(os.environ["RANK"])
    first = rank - int(os.environ["LOCAL_RANK"])
    local_ranks = range(first, first + int(os.environ["LOCAL_WORLD_SIZE"]))
    fields = [argument for argument in sys.argv[1:] if not argument.startswith("--local")]  # launch adds --local-rank
    trial = read_trial(["launch=launch", *fields, f"world_size={world_size}"])
    if int(os.environ.get("GROUP_WORLD_SIZE", "1")) > 1:  # the number of nodes
        choose_interface(os.environ["MASTER_ADDR"])
    run_rank(trial, rank, local_ranks, FROM_ENVIRONMENT)


def launch_ranks() -> None:
    """Do in this process what torch.distributed.launch does: fork the ranks, which run `main`. The first command-line
    argument is the number of ranks."""
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch  # slow; needed only here

    config = LaunchConfig(  # the settings of --standalone
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
    """Run `main` in a process that torch's launcher has forked, without the launcher's signal handlers."""
    forked.reset_signals()
    main()


if __name__ == "__main__":
    main()
