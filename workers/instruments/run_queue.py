"""Measures how long a thread ran on a core, and how long it was ready to run but had none, as Linux counts it."""

import os
from typing import NamedTuple

from .descriptors import identity, no_standard_stream
from .shield import pass_on, suppressed

LONGEST = 128  # maximum length in bytes of the file, which has three numbers


class Scheduled(NamedTuple):
    """Times of a thread in ns; 0 if the system does not count them."""

    cpu_ns: int = 0  # running on a core
    queued_ns: int = 0  # ready to run, but without a core


class RunQueue:
    """Reads the scheduler's counters of the thread that makes this object."""

    # proc(5), /proc/PID/schedstat: ns on a core, ns in the queue, and how often it got a core. The file stays open, so
    # that a reading takes only 2 µs.
    def __init__(self) -> None:
        self._file: int | None = None
        with suppressed(OSError):  # the system is not Linux, or its kernel does not count
            file = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
            self._file = no_standard_stream(file)
            self._identity = identity(self._file)
        self._before = self._read()

    def taken(self) -> Scheduled:
        """The times since the last call."""
        before, self._before = self._before, self._read()
        return Scheduled(max(0, self._before.cpu_ns - before.cpu_ns), max(0, self._before.queued_ns - before.queued_ns))

    def close(self) -> None:
        """Close the file."""
        if self._file is not None and identity(self._file) == self._identity:  # else the training has closed it
            os.close(self._file)
        self._file = None

    def _read(self) -> Scheduled:
        if self._file is None:
            return Scheduled()
        try:
            cpu, queued, *_ = os.pread(self._file, LONGEST, 0).split()
            return Scheduled(int(cpu), int(queued))
        except (OSError, ValueError) as error:
            pass_on(error)
            return Scheduled()
