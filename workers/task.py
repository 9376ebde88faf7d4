"""One rank that somebody else has started: srun, a batch system, a person. Its environment says which one it is.

RANK=1 WORLD_SIZE=2 MASTER_ADDR=10.0.0.1 MASTER_PORT=15432 python -m workers.task strategy=all_reduce epochs=3
"""

import os
import sys

from ddptui.host import place
from ddptui.host.place.place import Place, PlaceError, describe
from workers.rank.group import IN_ENVIRONMENT, INIT_METHOD, Meeting, join_group, leave_group
from workers.rank.node import choose_interface
from workers.rank.process import rank_process, read_trial
from workers.work import work


def main() -> None:
    try:
        here = place.here(os.environ)
        if here is None:
            sys.exit("nothing here says which rank this is: `ddptui place` shows what is looked for")
        if here.local_world > 1 and here.is_node:
            sys.exit(f"{describe(here)}\nThis is a node, not a rank: `ddptui join` starts its ranks")
        print(describe(here), flush=True)
        trial = read_trial(["launch=task", *sys.argv[1:], f"world_size={here.world}"])
    except PlaceError as error:
        sys.exit(f"{error}")
    meeting = where(here, trial.init_method)
    neighbours = range(here.rank - here.local_rank, here.rank - here.local_rank + here.local_world)
    with rank_process(trial, here.rank, neighbours, has_parent=False) as me:
        join_group(me, meeting)
        work(me)
        leave_group()


def where(here: Place, init_method: str) -> Meeting:
    """Where the ranks meet: all read the same from where they are."""
    if init_method == "file" or here.address is None:
        if INIT_METHOD not in os.environ:
            sys.exit(f"{INIT_METHOD}=file:///PATH is missing: a new file that all ranks can see, where they meet")
        return Meeting(init_method=os.environ[INIT_METHOD])
    os.environ["MASTER_ADDR"] = choose_interface(here.address) if here.nodes > 1 else here.address
    os.environ["MASTER_PORT"] = str(here.port)
    return IN_ENVIRONMENT


if __name__ == "__main__":
    main()
