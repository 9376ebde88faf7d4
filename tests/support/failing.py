"""Functions that only raise, for tests to put in place of what may fail."""

import os
from collections.abc import Callable
from typing import Any


def failing(error: Exception) -> Callable[..., Any]:
    """A function that raises this error, whatever it is called with."""

    def fail(*_: object, **__: object) -> Any:
        raise error

    return fail


def failing_with(number: int) -> Callable[..., Any]:
    """A function that raises the OSError of this number, such as errno.ENOSPC."""
    return failing(OSError(number, os.strerror(number)))
