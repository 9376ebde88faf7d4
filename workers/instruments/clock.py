"""The clock of a rank's work: the host's own. cuda_clock.py has that of a GPU."""

import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from .page_locked import OnItsWay

# Of the thread that sends what a rank has noted.
SEND_EVERY_MS = 200  # at the same moments on all ranks of a host, so that all of them pay for it at once
LOOK_EVERY_MS = 50  # how often it checks whether the process has stood still
STOOD_STILL_MS = 75  # more than schedulers and Python's lock take
NS_PER_MS = 1_000_000
UNKNOWN = -2  # instead of a mark or a moment: it cannot be read, or a graph is being captured


class Accuracy(NamedTuple):
    """From a moment on, times are off by at most error_ns of the host's clock."""

    from_ns: int
    error_ns: int


class Clock:
    """Takes marks in time now, and reads them later. This is the host's own, for the CPU: a call ends with its work."""

    # A mark: the device has finished all that this thread has given it so far. Cheap, and safe in any thread. For the
    # CPU this is Python's own function, with none around it: the loop's thread calls it a dozen times a step.
    now: Callable[[], Any] = staticmethod(time.monotonic_ns)

    # The same on the home stream, on which the loop computes, whatever the current stream is. `come_home` makes the
    # current stream the home stream. Marks of one stream are in order, so no phase ends before it begins.
    at_home: Callable[[], Any] = staticmethod(time.monotonic_ns)
    come_home: Callable[[], Any] = staticmethod(time.monotonic_ns)

    # The host's present moment in ns, whatever the device still has to do. It is valid wherever a mark is.
    at_once: Callable[[], int] = staticmethod(time.monotonic_ns)

    device: "torch.device | None" = None  # None: this is the host's own clock

    def is_full(self) -> bool:
        """Whether too many marks are still unread to take more."""
        return False

    def is_home(self, stream: "torch.cuda.Stream | None" = None) -> bool:
        """Whether a stream is the home stream. stream: None: the current one."""
        return True

    def is_capturing(self) -> bool:
        """Whether this thread captures a graph: the device then does nothing of what it is given."""
        return False

    def after(self, wait: Callable[[], object]) -> Any:
        """A mark of the moment at which that is over which `wait` makes this thread's stream wait for. The stream does
        not wait; without a device the host does."""
        wait()
        return time.monotonic_ns()

    def reached(self, mark: Any) -> bool:
        """Whether the device has reached a mark."""
        return True

    def resolve(self, marks: Sequence[Any]) -> list[int] | None:
        """The marks in ns of the host's clock; None until the device has reached all of them. Raises RuntimeError."""
        return list(marks)

    def lengths(self, marks: Sequence[Any]) -> list[int] | None:
        """The time in ns from each mark to the next; None until the device has reached all of them. More exact than the
        difference of two moments. Raises RuntimeError."""
        return [later - earlier for earlier, later in pairwise(marks)]

    def keep(self, tensor: "Tensor") -> "OnItsWay | float":
        """What to hold of a number that is to be read later; NaN: it cannot be. On the CPU it is read now: that takes
        no wait, and in another thread it would take Python's lock again and again."""
        return float(tensor.item())

    def read(self, number: "OnItsWay | Tensor | float") -> float:
        """A number off the device, without waiting for work that is queued behind it; what `keep` has returned, once. A
        mark that was taken after the number must have been resolved."""
        return float(number)  # type: ignore[arg-type]

    def accuracy_change(self) -> Accuracy | None:
        """The accuracy from now on, if it has changed since the last call. The host's own clock never changes."""
        return None
