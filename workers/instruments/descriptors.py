"""Guards our file descriptors in the training's process. The training may close any descriptor; then a file of its own
may get the number."""

import fcntl
import os

from .shield import pass_on


def identity(descriptor: int) -> tuple[int, int] | None:
    """The device and inode of a descriptor's file; None if the descriptor is not open."""
    try:
        status = os.fstat(descriptor)
    except OSError as error:
        pass_on(error)
        return None
    return status.st_dev, status.st_ino


def no_standard_stream(descriptor: int) -> int:
    """Move a descriptor above 2 if it has the number of a standard stream that was closed: otherwise the training's
    output would go to our file. Returns the descriptor. Raises OSError."""
    if descriptor > 2:
        return descriptor
    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
    finally:
        os.close(descriptor)
