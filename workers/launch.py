"""torch.distributed.launch: the launcher runs this file once for each rank; its environment says which one it is.

python -m torch.distributed.launch --standalone --nproc_per_node=2 -m workers.launch strategy=all_reduce epochs=3
"""

import os
import sys

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


if __name__ == "__main__":
    main()
