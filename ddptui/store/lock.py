"""The lock on a run: one console at a time writes it. To look whether a console has it does not take it, even briefly:
another console that starts at that moment must not fail."""

import fcntl
import os
import struct
from pathlib import Path
from typing import IO

LOCK = "lock"  # a file that nothing else opens: an editor may replace any other by a new one, without the lock
ASKS = hasattr(fcntl, "F_OFD_GETLK")  # Linux tells whether a file is locked
FLOCK = "hhqqi4x"  # struct flock of 64 bits: type, whence, start, length, process
WHOLE_FILE = struct.pack(FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)


def opened(path: Path, flags: int) -> IO[bytes]:
    """A lock's file, opened without following a link or waiting for the other end of a pipe. Raises OSError."""
    return open(os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o644), "rb", buffering=0)


def lock(file: IO[bytes]) -> bool:
    """Whether the lock was acquired. The kernel releases it when the file is closed, also for a console that died."""
    try:
        if ASKS:
            fcntl.fcntl(file, fcntl.F_OFD_SETLK, WHOLE_FILE)
        else:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:  # any other: files cannot be locked here, as on some network file systems
        return not isinstance(error, BlockingIOError | PermissionError)  # POSIX allows either
    return True


def is_locked(file: IO[bytes]) -> bool:
    """Whether a console has the lock, also this one, by another opening of the file. Raises OSError."""
    if ASKS:
        kind: int = struct.unpack(FLOCK, fcntl.fcntl(file, fcntl.F_OFD_GETLK, WHOLE_FILE))[0]
        return kind != fcntl.F_UNLCK
    return not lock(file)  # elsewhere only the lock itself tells: it is held until the file is closed
