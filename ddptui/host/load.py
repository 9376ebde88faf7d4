"""How busy this host is, how much of that is the console's own work, and which other process is the busiest."""

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import NamedTuple

import psutil

from ddptui.wire.records import Load

READ_EVERY_S = 0.5  # in shorter readings the 10 ms resolution of CPU times is too coarse
SHORTEST_S = 0.05
LONGEST_NAME = 64  # characters of a process's name: any process may call itself anything

Processes = Callable[[], Iterable[psutil.Process]]


class CpuTime(NamedTuple):
    """CPU time of all cores since the host booted, in s."""

    busy: float  # neither idle nor waiting for I/O
    stolen: float  # of this, a hypervisor gave to other machines


class LoadMeter:
    """Measures the load of this host since the last reading. own: the processes of the console's work, besides its own.
    The busiest other process is looked for while others keep more than `above` cores busy."""

    def __init__(self, own: Processes, above: float, *, looks: bool = False) -> None:
        """looks: at all processes at once, so that the first reading can tell which is the busiest."""
        self._own = own
        self._above = above
        self._console = psutil.Process()
        self._read_at = time.monotonic()
        self._spent = cpu_time()
        self._own_s = self._spent_s()
        self._others_s: dict[int, float] = {}  # by process, its CPU time when they were looked at last
        if looks:
            self._busiest(self._own_s)

    def read(self, *, now: bool = False) -> list[Load]:
        """The mean numbers of busy cores since the last reading, if it was READ_EVERY_S ago, or SHORTEST_S with now."""
        elapsed = time.monotonic() - self._read_at
        if elapsed < (SHORTEST_S if now else READ_EVERY_S):
            return []
        spent, own_s = cpu_time(), self._spent_s()
        busy = max(0.0, spent.busy - self._spent.busy) / elapsed
        own = sum(max(0.0, after - self._own_s.get(pid, 0.0)) for pid, after in own_s.items()) / elapsed
        stolen = max(0.0, spent.stolen - self._spent.stolen) / elapsed
        self._read_at, self._spent, self._own_s = time.monotonic(), spent, own_s
        own = min(own, busy)  # read at two moments, it may exceed
        idle = max(0.0, (psutil.cpu_count() or 1) - busy)
        by = self._busiest(own_s) if busy - own > self._above else ""
        return [Load(at_ns=time.monotonic_ns(), s=elapsed, busy=busy, own=own, idle=idle, stolen=stolen, by=by)]

    def _spent_s(self) -> dict[int, float]:
        """CPU time of each process of the console's work since it began, s."""
        return {process.pid: _cpu_s(process) for process in (self._console, *self._own())}

    def _busiest(self, own_s: dict[int, float]) -> str:
        """The other program that worked most since the reading before, unless threads of the kernel's worked twice as
        much; empty at the first of such readings."""
        before, self._others_s = self._others_s, {}
        worked: dict[psutil.Process, float] = {}
        for process in psutil.process_iter():  # some ms: only worth it while others disturb
            if process.pid not in own_s:
                after_s = self._others_s[process.pid] = _cpu_s(process)
                worked[process] = after_s - before.get(process.pid, after_s)
        by_work = sorted(worked, key=lambda process: -worked[process])
        for process in by_work:
            if worked[process] <= worked[by_work[0]] / 2:  # nothing works beside it, or it is a thread of the kernel's
                break
            with suppress(psutil.Error):
                if not _is_kernels(process):
                    return f"{process.name()[:LONGEST_NAME]} (process {process.pid})"
        return ""


def descendants() -> list[psutil.Process]:
    """The processes that this one has started, and those that they have."""
    return psutil.Process().children(recursive=True)


def cpu_time() -> CpuTime:
    """What this host's cores have done so far."""
    times = psutil.cpu_times()
    stolen = getattr(times, "steal", 0.0)
    # Linux counts a guest's time as user time, too: it must not count twice
    return CpuTime(sum(times) - times.idle - getattr(times, "iowait", 0.0) - getattr(times, "guest", 0.0), stolen)


def _is_kernels(process: psutil.Process) -> bool:
    """Whether it is a thread of the kernel's, as kworker, which no user can close: a child of process 2, or of none,
    without a command line. In a container, process 2 may be any program."""
    return psutil.LINUX and process.ppid() in (0, 2) and not process.cmdline()


def _cpu_s(process: psutil.Process) -> float:
    """CPU time of a process since it began, s; 0.0 if it has ended or may not be asked."""
    try:
        times = process.cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system)
