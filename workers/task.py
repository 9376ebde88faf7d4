"""Entry point of one rank that srun, a batch system or the user starts. Environment variables say which rank it is.

RANK=1 WORLD_SIZE=2 MASTER_ADDR=10.0.0.1 MASTER_PORT=15432 python -m workers.task strategy=all_reduce epochs=3
"""

import os
import sys

from ddptui.host import platforms
from ddptui.host.rank_place import PlaceError, RankPlace
from workers.rank.group import FROM_ENVIRONMENT, INIT_METHOD, Rendezvous, choose_interface
from workers.rank.process import read_trial
from workers.run_rank import run_rank


def main() -> None:
    """Run this process as the rank that the environment describes. The command line describes the trial."""
    try:
        here = platforms.place_here(os.environ)
        if here is None:
            sys.exit("no environment variable says which rank this is: `ddptui place` lists those that are read")
        if here.local_world > 1 and here.is_node:
            sys.exit(f"{here.describe()}\nThis is a node, not a rank: start its ranks with `ddptui join`")
        print(here.describe(), flush=True)
        trial = read_trial(["launch=task", *sys.argv[1:], f"world_size={here.world}"])
    except PlaceError as error:
        sys.exit(f"{error}")
    first = here.rank - here.local_rank
    local_ranks = range(first, first + here.local_world)
    run_rank(trial, here.rank, local_ranks, rendezvous_of(here, trial.init_method), has_parent=False)


def rendezvous_of(here: RankPlace, init_method: str) -> Rendezvous:
    """Where the ranks meet, according to their environment variables."""
    if init_method == "file" or here.address is None:
        if INIT_METHOD not in os.environ:
            sys.exit(f"{INIT_METHOD}=file:///PATH is missing: a new file that all ranks can access, where they meet")
        return Rendezvous(init_method=os.environ[INIT_METHOD])
    os.environ["MASTER_ADDR"] = choose_interface(here.address) if here.nodes > 1 else here.address
    os.environ["MASTER_PORT"] = str(here.port)
    return FROM_ENVIRONMENT


if __name__ == "__main__":
    main()
