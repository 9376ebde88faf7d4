"""Opens files that other users may have put in place: only regular files, up to a maximum size.

A pipe, a device or a socket could block the reader forever. A sparse file may be huge without using disk space.
"""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

NOT_PLAIN = "it is a pipe, a socket or a device, not a regular file"


def open_plain(path: Path, most_bytes: int) -> BinaryIO:
    """Open a regular file of at most most_bytes for reading, without blocking. Raises OSError, which says what is
    wrong."""
    check_plain(path, most_bytes)  # before opening: opening a device may already have an effect
    return open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")  # some files in /proc block


def read_plain(path: Path, most_bytes: int) -> bytes:
    """The content of a regular file. Raises OSError, also if the file grows beyond the limit meanwhile."""
    with open_plain(path, most_bytes) as file:
        content = file.read(most_bytes + 1) or b""  # None: a file in /proc that would block
    if len(content) > most_bytes:
        raise _too_large(path, most_bytes)
    return content


def check_plain(path: Path, most_bytes: int) -> None:
    """Raises OSError unless the path is a regular file of at most most_bytes."""
    status = os.stat(path)
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder, not a file", str(path))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, NOT_PLAIN, str(path))
    if status.st_size > most_bytes:
        raise _too_large(path, most_bytes)


def _too_large(path: Path, most_bytes: int) -> OSError:
    size = f"{most_bytes >> 30} GB" if most_bytes >= 2**30 else f"{most_bytes >> 20} MB"
    return OSError(errno.EFBIG, f"it is larger than {size}", str(path))
