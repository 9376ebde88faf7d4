"""Descriptors of ours in a process of the training's, which may close any: then its own file may have that number."""

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
