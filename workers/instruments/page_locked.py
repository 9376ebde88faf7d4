"""Copies numbers from a GPU without waiting, and takes memory while another thread captures a CUDA graph.

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
    """Numbers that the device is copying. They are valid once the device has reached a mark recorded after the copy."""

    copy: Tensor
    free: deque[Tensor]

    def read(self) -> list[float]:
        """Return the numbers, and perhaps more after them, and free their place in memory. Call this only once."""
        numbers: list[float] = self.copy.tolist()
        self.drop()
        return numbers

    def drop(self) -> None:
        """Free the place in memory of numbers that nobody will read."""
        self.free.append(self.copy)


class PageLockedNumbers:
    """Places in page-locked memory, each for up to `numbers` numbers of one type."""

    def __init__(self, dtype: torch.dtype, places: int, numbers: int = 1) -> None:
        self._most = numbers
        # Tensors made in inference mode cannot be written to outside of it.
        with captures_go_on(), torch.inference_mode(False):
            self._free = deque(page_locked(places * numbers, dtype).view(places, numbers))

    def copy(self, numbers: Tensor) -> OnItsWay | None:
        """Queue a copy of numbers on the current stream. Returns None if no place is free, or if they are too many."""
        if not self._free or numbers.numel() > self._most:
            return None
        on_its_way = OnItsWay(self._free.popleft(), self._free)
        try:
            on_its_way.copy[: numbers.numel()].copy_(numbers.detach().reshape(-1), non_blocking=True)
        except RuntimeError:
            on_its_way.drop()
            raise
        return on_its_way


def page_locked(count: int, dtype: torch.dtype) -> Tensor:
    """Allocate memory to which a device can copy while the host continues."""
    return torch.empty(count, dtype=dtype, device="cpu", pin_memory=True)
