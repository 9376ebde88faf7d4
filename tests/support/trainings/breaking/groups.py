"""Ranks that do not get a group at all. Argument: why: the backend, or the world size."""

import os
import sys

from parts import join

if sys.argv[1] == "backend":
    join(6, backend="mpi")  # mark: backend
else:  # a number that was right on another machine
    join(6, rank=int(os.environ["RANK"]), world_size=4)  # mark: world
