"""Compares the times of marks with times of the host just before and after."""

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from workers.instruments.clock import Accuracy, Clock
from workers.instruments.cuda_clock import clock_of

FOR_S = 6.0
SETTLE_NS = 1_000_000_000  # what the first second reports is not counted in error_ns
PAUSE_S = 0.005  # between two marks
AT_ONCE = 40  # marks that are read together, as the reporter does: five times a second
SIDE = 2048  # of the matrices that keep a GPU busy
PRODUCTS = 4  # before each mark


class Between(NamedTuple):
    """A mark, and the host times between which the device reached it, in ns."""

    low_ns: int
    mark: Any
    high_ns: int


class Timed(NamedTuple):
    """The time of a mark, and by how much it lies outside its bounds, in ns; 0: it does not."""

    at_ns: int
    beyond_ns: int


def compare(device: torch.device, *, busy: bool, for_s: float = FOR_S) -> dict[str, Any]:
    """Take marks for so long, the queue of the device being empty or not."""
    clock = clock_of(device)
    work = products(device) if busy else lambda: None
    timed: list[Timed] = []
    accuracies: list[Accuracy] = []
    until = time.monotonic() + for_s
    while time.monotonic() < until:
        taken = [take(clock, work) for _ in range(AT_ONCE)]
        times = clock.resolve([each.mark for each in taken])
        if times is None:
            raise RuntimeError("the device has not reached a mark that it had reached before")
        timed += [timed_of(each, at_ns) for each, at_ns in zip(taken, times, strict=True)]
        accuracies += filter(None, [clock.accuracy_change()])
    return summary(timed, accuracies)


def products(device: torch.device) -> Callable[[], None]:
    """What gives a device work for about a millisecond."""
    matrix = torch.ones(SIDE, SIDE, device=device)
    out = torch.empty_like(matrix)

    def work() -> None:
        for _ in range(PRODUCTS):
            torch.matmul(matrix, matrix, out=out)

    return work


def take(clock: Clock, work: Callable[[], None]) -> Between:
    """A mark after some work. The device reached it after the last look at which it had not, and before the next."""
    time.sleep(PAUSE_S)
    work()
    low_ns = time.monotonic_ns()
    mark = clock.now()
    look_ns = low_ns
    while not clock.reached(mark):
        low_ns, look_ns = look_ns, time.monotonic_ns()
    return Between(low_ns, mark, time.monotonic_ns())


def timed_of(between: Between, at_ns: int) -> Timed:
    """A mark's time, held against its bounds."""
    return Timed(at_ns, max(0, between.low_ns - at_ns, at_ns - between.high_ns))


def summary(timed: Sequence[Timed], accuracies: Sequence[Accuracy]) -> dict[str, Any]:
    """How many marks lie outside their bounds by more than the error that was reported for them; by how much more the
    farthest does; and the largest error that was in force after the first second."""
    beyond = [mark.beyond_ns - error_at(mark.at_ns, accuracies) for mark in timed]
    settled = [mark.at_ns for mark in timed if mark.at_ns - timed[0].at_ns >= SETTLE_NS]
    return {
        "marks": len(timed),
        "outside": sum(ns > 0 for ns in beyond),
        "farthest_ns": max([0, *beyond]),
        "error_ns": max([error_at(at_ns, accuracies) for at_ns in settled], default=0),
    }


def error_at(at_ns: int, accuracies: Sequence[Accuracy]) -> int:
    """The error that was reported for a moment; 0: none was."""
    return next((accuracy.error_ns for accuracy in reversed(accuracies) if accuracy.from_ns <= at_ns), 0)
