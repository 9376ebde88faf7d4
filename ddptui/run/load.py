"""Measures how busy this host is during a launch, and how much of that is the launch itself."""

import time
from contextlib import suppress

import psutil

from ddptui.engines.base import Launch
from ddptui.wire.records import Load

EVERY_S = 1.0  # shorter readings suffer from the 10 ms resolution of CPU times


class LoadMeter:
    """Reads the CPU time of all cores, and of the launch with the console, once a second."""

    def __init__(self, launcher: Launch) -> None:
        self._launcher = launcher
        self._console = psutil.Process()
        self._read_at = time.monotonic()
        self._busy_s = _busy_s()
        self._launch_s = self._spent_s()

    def read(self) -> list[Load]:
        """The mean numbers of busy cores since the last reading, once a second; else nothing."""
        now = time.monotonic()
        if now - self._read_at < EVERY_S:
            return []
        elapsed, busy_s, launch_s = now - self._read_at, _busy_s(), self._spent_s()
        busy = max(0.0, busy_s - self._busy_s) / elapsed
        own = sum(max(0.0, spent - self._launch_s.get(pid, 0.0)) for pid, spent in launch_s.items()) / elapsed
        self._read_at, self._busy_s, self._launch_s = now, busy_s, launch_s
        return [Load(at_ns=time.monotonic_ns(), busy=busy, own=min(own, busy))]

    def _spent_s(self) -> dict[int, float]:
        """CPU time of each process of the launch and of the console since it began, s."""
        spent = {}
        for process in (self._console, *self._launcher.processes()):
            with suppress(psutil.Error):
                times = process.cpu_times()
                spent[process.pid] = times.user + times.system
        return spent


def _busy_s() -> float:
    """CPU time of all cores since the host booted, s, without idling and waiting for I/O."""
    times = psutil.cpu_times()
    return sum(times) - times.idle - getattr(times, "iowait", 0.0) - getattr(times, "guest", 0.0)
