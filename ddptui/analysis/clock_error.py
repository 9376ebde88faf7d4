"""Bounds the error of waits between ranks with different clocks. Pure.

Arrivals at an operation are known no better than the ranks' clocks are compared. But a wait is never negative, and
never longer than the operation took by the rank's own clock: an operation is wrong by this at most. The operations of a
step may all be wrong in the same direction, so their errors add up.
"""

from collections.abc import Sequence
from statistics import fmean, median
from typing import NamedTuple

from ddptui.analysis.clock_sync import ClockSpread
from ddptui.analysis.operations import operation_keys
from ddptui.analysis.waits import AlignedStep


class WaitUncertainty(NamedTuple):
    """How far off waits may be, in ns."""

    clock_ns: float  # how far the clocks of two ranks may be apart; inf: not known
    by_rank: dict[int, list[float]]  # the error of a rank's waiting in each step, and of its transfers


def wait_uncertainty(steps: Sequence[AlignedStep]) -> WaitUncertainty | None:
    """The uncertainty of the waits in these steps. None: there is no step, or all ranks have one clock."""
    spread = steps[0].clock_spread if steps else None
    if spread is None:
        return None
    by_rank: dict[int, list[float]] = {rank: [] for rank in steps[0].ranks}
    for step in steps:
        # A step of a live run has the spread that was known when it was aligned.
        for rank, error_ns in _errors_ns(step, step.clock_spread or spread).items():
            by_rank[rank].append(error_ns)
    return WaitUncertainty(max((step.clock_spread or spread).largest_ns(step.ranks) for step in steps), by_rank)


def _errors_ns(step: AlignedStep, spread: ClockSpread) -> dict[int, float]:
    """By rank."""
    errors_ns = dict.fromkeys(step.ranks, 0.0)
    participants = {key: frozenset(moments) for key, moments in step.entered_ns.items()}  # most alike: one spread each
    spreads = {ranks: spread.errors_ns(ranks) for ranks in set(participants.values())}
    for rank, of_rank in step.ranks.items():
        for key, operation in zip(operation_keys(of_rank.step), of_rank.step.collectives, strict=True):
            errors_ns[rank] += min(spreads[participants[key]][rank], operation.exit_ns - operation.enter_ns)
    return errors_ns


def exceeds_waits(steps: Sequence[AlignedStep], uncertainty: WaitUncertainty) -> bool:
    """Whether the clocks may be further apart than the ranks waited, all together."""
    waited_ns = sum(of_rank.wait_ns for step in steps for of_rank in step.ranks.values())
    return sum(map(sum, uncertainty.by_rank.values())) > waited_ns


def median_wait_error(steps: Sequence[AlignedStep], uncertainty: WaitUncertainty) -> float:
    """How far off the median wait of a rank may be, ns; mean over ranks."""
    errors_ns = []
    for rank, errors in uncertainty.by_rank.items():
        waits = [step.ranks[rank].wait_ns for step in steps]
        # The true median lies between that of the lowest possible values and that of the highest.
        lowest = median(wait - error for wait, error in zip(waits, errors, strict=True))
        highest = median(wait + error for wait, error in zip(waits, errors, strict=True))
        errors_ns.append(max(highest - median(waits), median(waits) - lowest))
    return fmean(errors_ns)
