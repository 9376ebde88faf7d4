"""Helpers for tests of what the doctor finds."""

import os
from collections.abc import Callable, Iterator
from typing import Any

from ddptui.doctor.finding import Finding

GB = 2**30


def only(findings: Iterator[Finding]) -> Finding:
    [finding] = findings
    return finding


def failing(error: Exception) -> Callable[..., Any]:
    """A function that raises this error, whatever it is called with."""

    def fail(*_: object, **__: object) -> Any:
        raise error

    return fail


def failing_with(number: int) -> Callable[..., Any]:
    """A function that raises the OSError of this number, such as errno.ENOSPC."""
    return failing(OSError(number, os.strerror(number)))
