"""How far off the waiting of ranks may be that have clocks of their own. Pure: steps that are side by side in.

Who came when to an operation is known no better than their clocks are to each other. But no error of a clock makes a
wait shorter than nothing, or longer than the operation itself took, by one clock: so that is the most that an operation
can be wrong by. The operations of a step may all be wrong in the same direction: their errors add up.
"""

from collections.abc import Sequence
from statistics import fmean, median
from typing import NamedTuple

from ddptui.analysis.clock_sync import ClockSpread
from ddptui.analysis.operations import operation_keys
from ddptui.analysis.waits import AlignedStep


class WaitUncertainty(NamedTuple):
    """clock_ns: how far two ranks' clocks may be apart (inf: nobody knows); by_rank: how far off a rank's waiting may
    be, and its transfers with it, step by step, ns."""

    clock_ns: float
    by_rank: dict[int, list[float]]


def wait_uncertainty(joined: Sequence[AlignedStep]) -> WaitUncertainty | None:
    """None: no step, or all ranks have one clock."""
    apart = joined[0].clock_spread if joined else None
    if apart is None:
        return None
    by_rank: dict[int, list[float]] = {rank: [] for rank in joined[0].ranks}
    for step in joined:
        for rank, error_ns in _of_step(step, step.clock_spread or apart).items():
            by_rank[rank].append(error_ns)
    return WaitUncertainty(max((step.clock_spread or apart).largest_ns(step.ranks) for step in joined), by_rank)


def _of_step(step: AlignedStep, apart: ClockSpread) -> dict[int, float]:
    found = dict.fromkeys(step.ranks, 0.0)
    together = {key: frozenset(moments) for key, moments in step.entered_ns.items()}
    errors = {ranks: apart.errors_ns(ranks) for ranks in set(together.values())}
    for rank, own in step.ranks.items():
        for key, operation in zip(operation_keys(own.step), own.step.collectives, strict=True):
            found[rank] += min(errors[together[key]][rank], operation.exit_ns - operation.enter_ns)
    return found


def exceeds_waits(joined: Sequence[AlignedStep], found: WaitUncertainty) -> bool:
    """Whether the clocks may be further apart than the ranks waited."""
    waited = sum(own.wait_ns for step in joined for own in step.ranks.values())
    return sum(map(sum, found.by_rank.values())) > waited


def median_wait_error(joined: Sequence[AlignedStep], found: WaitUncertainty) -> float:
    """How far off a rank's median waiting may be, ns, mean over the ranks."""
    return fmean(
        _of_median([step.ranks[rank].wait_ns for step in joined], errors) for rank, errors in found.by_rank.items()
    )


def _of_median(waits: Sequence[float], errors: Sequence[float]) -> float:
    """If each of them may be off by so much, the median lies between those of the lowest and of the highest."""
    lowest = median(wait - error for wait, error in zip(waits, errors, strict=True))
    highest = median(wait + error for wait, error in zip(waits, errors, strict=True))
    return max(highest - median(waits), median(waits) - lowest)
