"""What time it is for a rank's work: the host's clock, or on a GPU the moments at which its stream gets there."""

import time
from collections.abc import Sequence
from typing import Any, Protocol

import torch


class Clock(Protocol):
    def now(self) -> Any:
        """A mark in time, cheap to take."""

    def resolve(self, marks: Sequence[Any]) -> list[int] | None:
        """The marks in ns of the host's monotonic clock; None while the device has not reached the last one."""


class HostClock:
    """On the CPU, work is done when the call returns."""

    now = staticmethod(time.monotonic_ns)

    def resolve(self, marks: Sequence[int]) -> list[int] | None:
        return list(marks)


class CudaClock:
    """On a GPU a call returns before its work is done, so a mark is an event on the stream, read later.

    The two clocks are tied together once, before the first step. The loop itself is never made to wait.
    """

    def __init__(self, device: torch.device) -> None:
        self._anchor = torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize(device)
        self._anchor.record()
        torch.cuda.synchronize(device)
        self._anchor_ns = time.monotonic_ns()

    def now(self) -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def resolve(self, marks: Sequence[torch.cuda.Event]) -> list[int] | None:
        if not marks[-1].query():
            return None
        return [self._anchor_ns + round(self._anchor.elapsed_time(mark) * 1e6) for mark in marks]


def clock_of(device: torch.device) -> Clock:
    return CudaClock(device) if device.type == "cuda" else HostClock()
