"""The clock by which a rank's work is timed: here the host's; cuda_clock.py has a GPU's. Copies from a GPU without
waiting.

While one thread captures, CUDA rejects calls of other threads that might wait or allocate, such as querying an event,
and the capture also fails. Threads that have set their own capture mode to relaxed are exempt.
"""

import ctypes
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from .shield import pass_on

if TYPE_CHECKING:
    import torch
    from torch import Tensor


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


# These are for the thread that sends a rank's messages.
SEND_EVERY_MS = 200  # at the same moments on all ranks of a host, so that all pay for it at the same time
LOOK_EVERY_MS = 50  # how often it checks whether the process has been paused
STOOD_STILL_MS = 75  # a longer gap is a pause: schedulers and Python's lock take less
NS_PER_MS = 1_000_000
UNKNOWN = -2  # in place of a mark or a moment that cannot be read, or while a graph is captured


class Accuracy(NamedTuple):
    """From the moment from_ns on, times differ from the host's clock by at most error_ns."""

    from_ns: int
    error_ns: int


class Clock:
    """Takes marks, and reads their times later. This is the host's clock, for the CPU, where a call returns after its
    work is done."""

    # Takes a mark, which is reached when the device has finished all that this thread has given it so far. Cheap, and
    # safe in any thread. For the CPU this is Python's own function, unwrapped: the loop calls it a dozen times a step.
    now: Callable[[], Any] = staticmethod(time.monotonic_ns)

    # Take a mark on the home stream, on which the loop computes, whatever the current stream is. `come_home` first
    # makes the current stream the home stream. Marks of one stream are in order, so no phase ends before it begins.
    at_home: Callable[[], Any] = staticmethod(time.monotonic_ns)
    come_home: Callable[[], Any] = staticmethod(time.monotonic_ns)

    # The host's present time in ns, whatever the device still has to do. It may be used in place of a mark.
    at_once: Callable[[], int] = staticmethod(time.monotonic_ns)

    device: "torch.device | None" = None  # None: this is the host's clock

    def is_full(self) -> bool:
        """Whether too many marks are unread, so that no more may be taken."""
        return False

    def is_home(self, stream: "torch.cuda.Stream | None" = None) -> bool:
        """Whether a stream is the home stream. stream: None for the current one."""
        return True

    def is_capturing(self) -> bool:
        """Whether this thread is capturing a graph: the device then executes nothing."""
        return False

    def after(self, wait: Callable[[], object]) -> Any:
        """Take a mark at the end of the operation that `wait` waits for. This thread's stream does not wait (another
        stream does); without a device, the host waits."""
        wait()
        return time.monotonic_ns()

    def reached(self, mark: Any) -> bool:
        """Whether the device has reached a mark."""
        return True

    def resolve(self, marks: Sequence[Any]) -> list[int] | None:
        """The times of the marks, in ns of the host's clock; None until the device has reached all marks. Raises
        RuntimeError if the device has failed."""
        return list(marks)

    def lengths(self, marks: Sequence[Any]) -> list[int] | None:
        """The time in ns from each mark to the next; None until the device has reached all marks. More exact than the
        difference of two times from `resolve`. Raises RuntimeError if the device has failed."""
        return [later - earlier for earlier, later in pairwise(marks)]

    def keep(self, tensor: "Tensor") -> "OnItsWay | float | None":
        """Save a number for `read` later; None if it cannot be saved. On the CPU it is read now: that does not wait,
        and reading in another thread would take Python's lock again and again."""
        return float(tensor.item())

    def read(self, number: "OnItsWay | Tensor | float") -> float:
        """The value of a number on the device, or of what `keep` has returned (only once). Does not wait for work
        queued later. A mark taken after the number must have been resolved."""
        return float(number)  # type: ignore[arg-type]

    def accuracy_change(self) -> Accuracy | None:
        """The new accuracy, if it has changed since the last call, else None; that of the host's clock never
        changes."""
        return None
