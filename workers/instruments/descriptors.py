"""Descriptors of ours in a process of the training's, which may close any: then its own file may have that number."""

import fcntl
import os

from .shield import pass_on


def identity(descriptor: int) -> tuple[int, int] | None:
    """What a descriptor stands for; None: nothing."""
    try:
        status = os.fstat(descriptor)
    except OSError as error:
        pass_on(error)
        return None
    return status.st_dev, status.st_ino


def no_standard_stream(descriptor: int) -> int:
    """A descriptor, or in its place a new one of the same file if a standard stream, which is closed, had its number:
    what the training writes there would reach the file. Raises OSError."""
    if descriptor > 2:
        return descriptor
    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
    finally:
        os.close(descriptor)
