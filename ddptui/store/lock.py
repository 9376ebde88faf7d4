"""The lock on a run: one console at a time writes it."""

import fcntl
import os
from pathlib import Path
from typing import IO

LOCK = "lock"  # a file that nothing else opens: an editor may replace any other by a new one, without the lock


def opened(path: Path, flags: int) -> IO[bytes]:
    """A lock's file, opened without following a link or waiting for the other end of a pipe. Raises OSError."""
    return open(os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o644), "rb", buffering=0)


def lock(file: IO[bytes]) -> bool:
    """Whether the lock was acquired. The kernel releases it when the file is closed, also for a console that died."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # files cannot be locked here, as on some network file systems: nothing can be known
        return True
    return True
