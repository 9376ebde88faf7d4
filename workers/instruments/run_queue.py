"""How long a thread was ready to run but had no core, as Linux counts it."""

import os

from .descriptors import identity, no_standard_stream
from .shield import pass_on, suppressed

LONGEST = 128  # bytes of the file: three numbers


class RunQueue:
    """The time that the thread which made this has waited in the scheduler's queue."""

    # proc(5), /proc/PID/schedstat: ns on a core, ns in the queue, and how often it got a core. The file stays open, so
    # a reading takes 2 us.
    def __init__(self) -> None:
        self._file: int | None = None
        with suppressed(OSError):  # another system than Linux, or a kernel that does not count it
            file = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
            self._file = no_standard_stream(file)
            self._identity = identity(self._file)
        self._before_ns = self._read_ns()

    def taken_ns(self) -> int:
        """The time in ns since the last call; 0 where it is not counted."""
        before_ns, self._before_ns = self._before_ns, self._read_ns()
        return max(0, self._before_ns - before_ns)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None and identity(self._file) == self._identity:  # else the training has closed it
            os.close(self._file)
        self._file = None

    def _read_ns(self) -> int:
        if self._file is None:
            return 0
        try:
            return int(os.pread(self._file, LONGEST, 0).split()[1])
        except (OSError, ValueError, IndexError) as error:
            pass_on(error)
            return 0
