"""What the hooks need to know of their process, and of the file that names its relay."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import torch.distributed as dist

from ..instruments.shield import pass_on


@contextmanager
def no_signals() -> Iterator[None]:
    """Block this thread's signals while the context is open, except those of a fault."""
    faults = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - faults)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def written(console: str) -> tuple[int, int] | None:
    """The inode and modification time of the file that names the relay; None if the file is gone."""
    try:
        status = os.stat(console)
    except OSError as error:
        pass_on(error)
        return None
    return status.st_ino, status.st_mtime_ns


FEW_BACKWARDS = 10  # a rank that has called backward this often without a process group trains without one


def is_a_rank(backwards: int) -> bool:
    """Whether this process is in a process group, or trains without one. False for a rank that has yet to join its
    group. backwards: how often it has called backward."""
    is_alone = os.environ.get("WORLD_SIZE", "1") == "1" or backwards >= FEW_BACKWARDS
    return not dist.is_available() or dist.is_initialized() or is_alone
