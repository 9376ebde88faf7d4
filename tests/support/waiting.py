"""Waiting for what another process brings about: for a file or a process there is nothing to wait on."""

import time
from collections.abc import Callable
from typing import TypeVar

from tests.support.runner import ENOUGH_S

Found = TypeVar("Found")


def until(
    happened: Callable[[], Found], within_s: float = ENOUGH_S, why_not: Callable[[], object] = lambda: ""
) -> Found:
    """Return what it returns, as soon as that is true."""
    deadline = time.monotonic() + within_s
    while not (found := happened()):
        assert time.monotonic() < deadline, why_not()
        time.sleep(0.02)
    return found
