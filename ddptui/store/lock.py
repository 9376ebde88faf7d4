"""The lock on a run, which lets only one console at a time write it.

Checking whether a run is locked does not acquire the lock, even briefly: another console that starts at that moment
must not fail.
"""

import fcntl
import os
import struct
from pathlib import Path
from typing import IO

LOCK = "lock"  # a file of its own: an editor may replace another file of the run, and so drop its lock
ASKS = hasattr(fcntl, "F_OFD_GETLK")  # whether the system can tell if a file is locked, as Linux can
FLOCK = "hhqqi4x"  # 64-bit struct flock: type, whence, start, length, process id
WHOLE_FILE = struct.pack(FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)


def opened(path: Path, flags: int) -> IO[bytes]:
    """Open a lock's file, without following a link or waiting for the other end of a pipe. Raises OSError."""
    return open(os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o644), "rb", buffering=0)


def lock(file: IO[bytes]) -> bool:
    """Try to acquire the lock; returns whether this console may write. The kernel releases the lock when the file is
    closed or the console dies. True also if files cannot be locked here."""
    try:
        if ASKS:
            fcntl.fcntl(file, fcntl.F_OFD_SETLK, WHOLE_FILE)
        else:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:  # other errors: files cannot be locked here, as on some network file systems
        return not isinstance(error, BlockingIOError | PermissionError)  # POSIX allows either for a locked file
    return True


def is_locked(file: IO[bytes]) -> bool:
    """Whether a console holds the lock. That may be this console, through another descriptor. Raises OSError."""
    if ASKS:
        kind: int = struct.unpack(FLOCK, fcntl.fcntl(file, fcntl.F_OFD_GETLK, WHOLE_FILE))[0]
        return kind != fcntl.F_UNLCK
    return not lock(file)  # other systems: try to lock it; closing the file releases the lock
