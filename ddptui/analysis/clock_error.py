"""Bounds the error of measured waits between ranks with different clocks. Pure.

Arrivals at an operation are known only as well as the ranks' clocks were compared. But a wait is never negative, and
never longer than the operation took by the rank's own clock, which bounds the error of each operation. The operations
of a step may all err in the same direction, so their errors add up.
"""

from collections.abc import Sequence
from statistics import fmean, median
from typing import NamedTuple

from ddptui.analysis.clock_sync import ClockSpread
from ddptui.analysis.operations import operation_keys
from ddptui.analysis.waits import AlignedStep


class WaitUncertainty(NamedTuple):
    """The largest possible errors of waits, in ns."""

    clock_ns: float  # error between the clocks of any two ranks; inf: unknown
    by_rank: dict[int, list[float]]  # for each rank and step, the error of its wait (and of its transfer)


def wait_uncertainty(steps: Sequence[AlignedStep]) -> WaitUncertainty | None:
    """The uncertainty of the waits in these steps. None: there is no step, or all ranks share one clock."""
    spread = steps[0].clock_spread if steps else None
    if spread is None:
        return None
    by_rank: dict[int, list[float]] = {rank: [] for rank in steps[0].ranks}
    for step in steps:
        # In a live run, each step carries the clock error that was known when it was aligned.
        for rank, error_ns in _errors_ns(step, step.clock_spread or spread).items():
            by_rank[rank].append(error_ns)
    return WaitUncertainty(max((step.clock_spread or spread).largest_ns(step.ranks) for step in steps), by_rank)


def _errors_ns(step: AlignedStep, spread: ClockSpread) -> dict[int, float]:
    """For each rank, the largest possible error of its waiting in this step, in ns."""
    errors_ns = dict.fromkeys(step.ranks, 0.0)
    participants = {key: frozenset(moments) for key, moments in step.entered_ns.items()}
    spreads = {ranks: spread.errors_ns(ranks) for ranks in set(participants.values())}
    for rank, of_rank in step.ranks.items():
        for key, operation in zip(operation_keys(of_rank.step), of_rank.step.collectives, strict=True):
            errors_ns[rank] += min(spreads[participants[key]][rank], operation.exit_ns - operation.enter_ns)
    return errors_ns


def exceeds_waits(steps: Sequence[AlignedStep], uncertainty: WaitUncertainty) -> bool:
    """Whether the clock errors, summed over ranks and steps, exceed the measured waits."""
    waited_ns = sum(of_rank.wait_ns for step in steps for of_rank in step.ranks.values())
    return sum(map(sum, uncertainty.by_rank.values())) > waited_ns


def median_wait_error(steps: Sequence[AlignedStep], uncertainty: WaitUncertainty) -> float:
    """The largest possible error of a rank's median wait per step, in ns; mean over ranks."""
    errors_ns = []
    for rank, errors in uncertainty.by_rank.items():
        waits = [step.ranks[rank].wait_ns for step in steps]
        # The true median lies between the medians of the lowest and of the highest possible values.
        lowest = median(wait - error for wait, error in zip(waits, errors, strict=True))
        highest = median(wait + error for wait, error in zip(waits, errors, strict=True))
        errors_ns.append(max(highest - median(waits), median(waits) - lowest))
    return fmean(errors_ns)
