"""Opens files that others may have put in place: only plain ones, up to a size.

A pipe, a device or a socket could block the reader for ever; a sparse file of many GB takes no room on a disk.
"""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

NOT_PLAIN = "it is a pipe, a socket or a device, not a plain file"


def open_plain(path: Path, most_bytes: int) -> BinaryIO:
    """Open a plain file of at most so many bytes for reading; never blocks. Raises OSError, which says what it is."""
    check_plain(path, most_bytes)  # first: to open a device may already have an effect
    return open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")  # some of /proc wait for news


def read_plain(path: Path, most_bytes: int) -> bytes:
    """The content of a plain file. Raises OSError, also if it grows beyond the limit meanwhile."""
    with open_plain(path, most_bytes) as file:
        content = file.read(most_bytes + 1) or b""  # None: a file of /proc that waits for news
    if len(content) > most_bytes:
        raise _too_large(path, most_bytes)
    return content


def check_plain(path: Path, most_bytes: int) -> None:
    """Raises OSError if there is no plain file of at most so many bytes."""
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
