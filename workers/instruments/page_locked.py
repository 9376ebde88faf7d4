"""What a process may do beside a capture of a CUDA graph; and numbers on their way from a GPU, which no host waits for.

While any thread captures, CUDA fails another thread's call that could wait, as for an event, and with that the capture
itself, unless the thread has said beforehand that its calls do not matter to captures.
"""

import ctypes
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor

from .shield import pass_on

RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED
CUDA = "libcuda.so.1", "cuThreadExchangeStreamCaptureMode"  # of the driver, which every CUDA runtime goes through
HIP = "libamdhip64.so", "hipThreadExchangeStreamCaptureMode"
MOST = 1_000  # numbers of a type on their way


def exchange_capture_mode(mode: int) -> int:
    """Set what CUDA forbids this thread while others capture, and return what it was. Raises RuntimeError where that
    cannot be."""
    library, name = HIP if torch.version.hip else CUDA
    before = ctypes.c_int(mode)
    try:
        error = getattr(ctypes.CDLL(library), name)(ctypes.byref(before))
    except (OSError, AttributeError) as missing:
        pass_on(missing)
        error = missing
    if error:
        raise RuntimeError(f"asking for events would end the training's capture of a CUDA graph ({name}: {error})")
    return before.value


@contextmanager
def captures_go_on() -> Iterator[None]:
    """Have no capture of another thread's fail by what this thread does."""
    before = exchange_capture_mode(RELAXED)
    try:
        yield
    finally:
        exchange_capture_mode(before)


class OnItsWay(NamedTuple):
    """A number that the device will have copied once it comes to a mark after it."""

    copy: Tensor
    free: list[Tensor]

    def read(self) -> float:
        """The number, once."""
        number = float(self.copy.item())
        self.free.append(self.copy)
        return number


class Numbers:
    """Room for numbers of one type on their way."""

    def __init__(self, dtype: torch.dtype) -> None:
        with captures_go_on():
            self._free = list(page_locked(MOST, dtype))

    def copy(self, number: Tensor) -> OnItsWay | float:
        """Have the device copy a number, when its current stream comes there; NaN if too many are on their way."""
        if not self._free:
            return math.nan
        copy = self._free.pop()
        copy.copy_(number.detach().reshape(()), non_blocking=True)
        return OnItsWay(copy, self._free)


def page_locked(count: int, dtype: torch.dtype) -> Tensor:
    """Memory to which a device copies while the host goes on."""
    return torch.empty(count, dtype=dtype, pin_memory=True)
