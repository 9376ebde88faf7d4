"""A rank's own link to the others, where the trial has slow ones: it enters the network that was made for it."""

import ctypes
import os
from pathlib import Path

from ddptui.wire.connection import LINKS

CLONE_NEWNET = 0x40000000  # linux/sched.h


def enter(rank: int) -> None:
    """From now on this thread, and whoever it starts, opens sockets in the rank's network. Without slow links nothing
    happens. Before anything else: what is open already stays where it was opened. The wire is a file, and leads out."""
    if LINKS not in os.environ:
        return
    launcher, *networks = os.environ[LINKS].split()
    with Path(f"/proc/{launcher}/fd/{networks[rank]}").open("rb") as network:
        if ctypes.CDLL(None, use_errno=True).setns(network.fileno(), CLONE_NEWNET):
            number = ctypes.get_errno()
            raise OSError(number, f"rank {rank} cannot enter its network: {os.strerror(number)}")
