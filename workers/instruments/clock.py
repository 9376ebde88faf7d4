"""The clock of a rank's work: the host's own. cuda_clock.py has that of a GPU."""

import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor

# Of the thread that sends what a rank has noted.
SEND_EVERY_MS = 200  # at the same moments on all ranks of a host, so that all of them pay for it at once
LOOK_EVERY_MS = 50  # how often it checks whether the process has stood still
STOOD_STILL_MS = 75  # more than schedulers and Python's lock take
NS_PER_MS = 1_000_000


class Accuracy(NamedTuple):
    """From a moment on, times are off by at most error_ns of the host's clock."""

    from_ns: int
    error_ns: int


class Clock:
    """Takes marks in time now, and reads them later. This is the host's own, for the CPU: a call ends with its work."""

    # A mark: the device has finished all that this thread has given it so far. Cheap, and safe in any thread. For the
    # CPU this is Python's own function, with none around it: the loop's thread calls it a dozen times a step.
    now: Callable[[], Any] = staticmethod(time.monotonic_ns)

    # A mark of the host's present moment, whatever the device still has to do.
    at_once: Callable[[], Any] = staticmethod(time.monotonic_ns)

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

    def keep(self, tensor: "Tensor") -> "Tensor | float":
        """What to hold of a number that is to be read later. On the CPU it is read now: that takes no wait, and in
        another thread it would take Python's lock again and again."""
        return float(tensor.item())

    def read(self, number: "Tensor | float") -> float:
        """A number off the device, without waiting for work that is queued behind it. A mark that was taken after the
        number must have been resolved."""
        return float(number)

    def accuracy_change(self) -> Accuracy | None:
        """The accuracy from now on, if it has changed since the last call. The host's own clock never changes."""
        return None
