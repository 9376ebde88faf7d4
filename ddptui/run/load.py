"""How busy this host is while a trial runs, and how much of that is the trial itself."""

import time
from contextlib import suppress

import psutil

from ddptui.engines.base import Launch
from ddptui.wire.records import Load

EVERY_S = 1.0


class LoadMeter:
    """Reads, once a second, what all cores did since the last reading, and what the launch and the console did."""

    def __init__(self, launcher: Launch) -> None:
        self._launcher = launcher
        self._console = psutil.Process()
        self._last = time.monotonic()
        self._busy_s = _busy_s()
        self._own_s = self._spent_s()

    def read(self) -> list[Load]:
        """One Load, if it is time for it."""
        now = time.monotonic()
        if now - self._last < EVERY_S:
            return []
        elapsed, busy_s, own_s = now - self._last, _busy_s(), self._spent_s()
        busy = max(0.0, busy_s - self._busy_s) / elapsed
        own = sum(max(0.0, spent - self._own_s.get(pid, 0.0)) for pid, spent in own_s.items()) / elapsed
        self._last, self._busy_s, self._own_s = now, busy_s, own_s
        return [Load(at_ns=time.monotonic_ns(), busy=busy, own=min(own, busy))]

    def _spent_s(self) -> dict[int, float]:
        """CPU time by process, since it began."""
        spent = {}
        for process in (self._console, *self._launcher.processes()):
            with suppress(psutil.Error):
                times = process.cpu_times()
                spent[process.pid] = times.user + times.system
        return spent


def _busy_s() -> float:
    """What all cores of this host have spent working, since it began."""
    times = psutil.cpu_times()
    return sum(times) - times.idle - getattr(times, "iowait", 0.0) - getattr(times, "guest", 0.0)
