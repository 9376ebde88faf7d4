"""Copies numbers from a GPU without making the host wait, and allows CUDA calls while another thread captures a graph.

While one thread captures, CUDA rejects calls of other threads that might wait or allocate, such as querying an event,
and the capture also fails. Threads that have set their own capture mode to relaxed are exempt.
"""

import ctypes
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor

from .shield import pass_on

RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED
CUDA = "libcuda.so.1", "cuThreadExchangeStreamCaptureMode"  # in the driver, which every CUDA runtime uses
HIP = "libamdhip64.so", "hipThreadExchangeStreamCaptureMode"
MOST = 1_000  # numbers of one type that may be in transit


def exchange_capture_mode(mode: int) -> int:
    """Set this thread's capture mode, and return the previous one. Raises RuntimeError if the driver does not."""
    library, name = HIP if torch.version.hip else CUDA
    before = ctypes.c_int(mode)
    try:
        error = getattr(ctypes.CDLL(library), name)(ctypes.byref(before))
    except (OSError, AttributeError) as missing:
        pass_on(missing)
        error = missing
    if error:
        raise RuntimeError(f"our event queries would abort the training's capture of a CUDA graph ({name}: {error})")
    return before.value


@contextmanager
def captures_go_on() -> Iterator[None]:
    """Run the block without making another thread's capture fail."""
    before = exchange_capture_mode(RELAXED)
    try:
        yield
    finally:
        exchange_capture_mode(before)


class OnItsWay(NamedTuple):
    """A number that the device is copying. It is valid once the device has reached a mark recorded after the copy."""

    copy: Tensor
    free: deque[Tensor]

    def read(self) -> float:
        """Return the number, and free its place in memory. Call this only once."""
        number = float(self.copy.item())
        self.free.append(self.copy)
        return number


class Numbers:
    """Places in page-locked memory, for numbers of one type."""

    def __init__(self, dtype: torch.dtype) -> None:
        # Tensors made in inference mode cannot be written to outside of it.
        with captures_go_on(), torch.inference_mode(False):
            self._free = deque(page_locked(MOST, dtype))

    def copy(self, number: Tensor) -> OnItsWay | None:
        """Queue a copy of a number on the current stream. Returns None if no place is free."""
        if not self._free:
            return None
        on_its_way = OnItsWay(self._free.popleft(), self._free)
        try:
            on_its_way.copy.copy_(number.detach().reshape(()), non_blocking=True)
        except RuntimeError:
            on_its_way.read()
            raise
        return on_its_way


def page_locked(count: int, dtype: torch.dtype) -> Tensor:
    """Allocate memory to which a device can copy while the host continues."""
    return torch.empty(count, dtype=dtype, device="cpu", pin_memory=True)
