"""The clock by which a rank's work is timed: here the host's; cuda_clock.py has a GPU's.

A relay imports this file, and no torch.
"""

import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from .page_locked import OnItsWay


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
