"""Measures how busy this host is, how much of that is ddptui's own work, and which other process is the busiest."""

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import NamedTuple

import psutil

from ddptui.wire.records import Load

READ_EVERY_S = 0.5  # shorter intervals would be too inexact: CPU times have a resolution of 10 ms
SHORTEST_S = 0.05
LONGEST_NAME = 64  # characters of a process's name, which that process can choose freely

Processes = Callable[[], Iterable[psutil.Process]]


class CpuTime(NamedTuple):
    """CPU time of all cores since the host booted, in s."""

    busy: float  # neither idle nor waiting for I/O
    stolen: float  # the part of `busy` that a hypervisor gave to other virtual machines


class LoadMeter:
    """Measures the load of this host since the last reading."""

    def __init__(self, own: Processes, above: float, *, looks: bool = False) -> None:
        """own: returns the processes that belong to ddptui, besides the console itself. above: the busiest other
        process is determined only while other processes keep more than this many cores busy. looks: scan all processes
        right away, so that the first reading can already name the busiest one."""
        self._own = own
        self._above = above
        self._console = psutil.Process()
        self._read_at = time.monotonic()
        self._spent = cpu_time()
        self._own_s = self._spent_s()
        self._others_s: dict[int, float] = {}  # CPU time of each other process at the last scan, keyed by process id
        if looks:
            self._busiest(self._own_s)

    def read(self, *, now: bool = False) -> list[Load]:
        """The mean load since the last reading, as one Load; an empty list if less than READ_EVERY_S have passed, or
        SHORTEST_S with now."""
        elapsed = time.monotonic() - self._read_at
        if elapsed < (SHORTEST_S if now else READ_EVERY_S):
            return []
        spent, own_s = cpu_time(), self._spent_s()
        busy = max(0.0, spent.busy - self._spent.busy) / elapsed
        own = sum(max(0.0, after - self._own_s.get(pid, 0.0)) for pid, after in own_s.items()) / elapsed
        stolen = max(0.0, spent.stolen - self._spent.stolen) / elapsed
        self._read_at, self._spent, self._own_s = time.monotonic(), spent, own_s
        own = min(own, busy)  # read at slightly different times, it may exceed `busy`
        idle = max(0.0, (psutil.cpu_count() or 1) - busy)
        by = self._busiest(own_s) if busy - own > self._above else ""
        return [Load(at_ns=time.monotonic_ns(), s=elapsed, busy=busy, own=own, idle=idle, stolen=stolen, by=by)]

    def _spent_s(self) -> dict[int, float]:
        """CPU time of each of ddptui's processes since it began, in s, keyed by process id."""
        return {process.pid: _cpu_s(process) for process in (self._console, *self._own())}

    def _busiest(self, own_s: dict[int, float]) -> str:
        """The other process that used most CPU time since the last scan, unless a kernel thread used twice as much.
        Empty at the first scan."""
        before, self._others_s = self._others_s, {}
        worked: dict[psutil.Process, float] = {}
        for process in psutil.process_iter():  # takes some ms, so only done while others disturb
            if process.pid not in own_s:
                after_s = self._others_s[process.pid] = _cpu_s(process)
                worked[process] = after_s - before.get(process.pid, after_s)
        by_work = sorted(worked, key=lambda process: -worked[process])
        for process in by_work:
            if worked[process] <= worked[by_work[0]] / 2:  # idle, or far behind a kernel thread
                break
            with suppress(psutil.Error):
                if not _is_kernels(process):
                    return f"{process.name()[:LONGEST_NAME]} (process {process.pid})"
        return ""


def descendants() -> list[psutil.Process]:
    """All descendants of this process."""
    return psutil.Process().children(recursive=True)


def cpu_time() -> CpuTime:
    """CPU time of this host's cores since boot."""
    times = psutil.cpu_times()
    stolen = getattr(times, "steal", 0.0)
    # Linux includes the time of guests in user time, too: do not count it twice
    return CpuTime(sum(times) - times.idle - getattr(times, "iowait", 0.0) - getattr(times, "guest", 0.0), stolen)


def _is_kernels(process: psutil.Process) -> bool:
    """Whether the process is a kernel thread, such as kworker, which a user cannot end.

    A kernel thread has no command line, and process 2 or none as parent. The parent alone does not tell: in a
    container, process 2 may be any program.
    """
    return psutil.LINUX and process.ppid() in (0, 2) and not process.cmdline()


def _cpu_s(process: psutil.Process) -> float:
    """CPU time of a process since it began, in s; 0.0 if it has ended or access is denied."""
    try:
        times = process.cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system)
