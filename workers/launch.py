"""torch.distributed.launch: the launcher starts this file once a rank, and tells each by its environment who it is.

python -m torch.distributed.launch --standalone --nproc_per_node=2 -m workers.launch strategy=all_reduce epochs=3
"""

import os
import sys

from workers.rank.group import IN_ENVIRONMENT, join_group, leave_group
from workers.rank.node import choose_interface
from workers.rank.process import rank_process, read_trial
from workers.work import work


def main() -> None:
    world_size, rank = os.environ["WORLD_SIZE"], int(os.environ["RANK"])
    first = rank - int(os.environ["LOCAL_RANK"])
    fields = [argument for argument in sys.argv[1:] if not argument.startswith("--local")]  # --local-rank comes too
    trial = read_trial(["launch=launch", *fields, f"world_size={world_size}"])
    if int(os.environ.get("GROUP_WORLD_SIZE", "1")) > 1:
        choose_interface(os.environ["MASTER_ADDR"])
    with rank_process(trial, rank, range(first, first + int(os.environ["LOCAL_WORLD_SIZE"]))) as me:
        join_group(me, IN_ENVIRONMENT)
        work(me)
        leave_group()


if __name__ == "__main__":
    main()
