"""torch.distributed.launch: the launcher starts this file once a rank, and tells each by its environment who it is.

python -m torch.distributed.launch --standalone --nproc_per_node=2 -m workers.launch strategy=all_reduce epochs=3
"""

import os
import sys

from workers.group import join_group, leave_group
from workers.rank import rank_process, read_trial
from workers.work import work


def main() -> None:
    world_size = os.environ["WORLD_SIZE"]
    fields = [argument for argument in sys.argv[1:] if not argument.startswith("--local")]  # --local-rank comes too
    trial = read_trial(["launch=launch", *fields, f"world_size={world_size}"])
    with rank_process(trial, int(os.environ["RANK"])) as me:
        join_group(me, None)  # MASTER_ADDR and MASTER_PORT say where
        work(me)
        leave_group()


if __name__ == "__main__":
    main()
