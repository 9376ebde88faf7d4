"""The wait analysis of some steps: the error of waits between clocks, the verdict on shares, and the culprit over
repeats. Pure.

Arrivals at an operation are known only as well as the ranks' clocks were compared. But a wait is never negative, and
never longer than the operation took by the rank's own clock, which bounds the error of each operation. The operations
of a step may all err in the same direction, so their errors add up.
"""

from collections.abc import Sequence
from math import hypot, sqrt
from statistics import fmean, median, stdev
from typing import NamedTuple

from ddptui.analysis.clocks import ClockSpread
from ddptui.analysis.finding import Finding
from ddptui.analysis.operations import operation_keys
from ddptui.analysis.policy import MATTERS
from ddptui.analysis.results import ConfidenceInterval, Culprit, RepeatResult, Verdict
from ddptui.analysis.waits import AlignedStep, AlignedSteps


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


MOSTLY = 2 / 3  # the verdict names waiting or transfer if it makes up this part of both together


class WaitAnalysis(NamedTuple):
    """How long the ranks waited in some steps, and which rank caused it."""

    aligned: AlignedSteps
    train_ns: int  # from the start of the first step to the end of the last
    covered_ns: float  # the time that these steps took, mean over ranks; shares are parts of it
    wait_share: float  # part of the time in which a rank was idle for a late rank, mean over ranks
    transfer_share: float  # part of the time in which a rank was idle for the network, mean over ranks
    caused_ns: dict[int, int]  # for each rank, how long the others waited for its own work
    verdict: Verdict
    culprit: Culprit | None
    rank_without_core: int | None = None  # the rank that is late because other programs had its core
    uncertainty: WaitUncertainty | None = None  # error of the waits; None: all ranks share one clock
    withheld: bool = False  # waits are unknown: the clock error exceeds them, or the times are host times
    host_time: bool = False  # the times are host times, and devices may lag behind
    findings: tuple[Finding, ...] = ()  # all findings of the rules; those about a late rank come first


def verdict_for(wait_share: float, transfer_share: float) -> Verdict:
    """The verdict for these shares of the time, each from 0 to 1."""
    both = wait_share + transfer_share
    if both < MATTERS:
        return "inconclusive"
    if wait_share >= MOSTLY * both:
        return "skew"
    return "transfer" if transfer_share >= MOSTLY * both else "mixed"


def culprit_of_repeats(repeats: Sequence[RepeatResult]) -> Culprit | None:
    """The rank that is the culprit in more than half of the repeats, with the means of its figures over the repeats in
    which it is; None if no rank is."""
    culprits = [repeat.culprit for repeat in repeats if repeat.culprit]
    ranks = [culprit.rank for culprit in culprits]
    rank = max(ranks, key=ranks.count, default=None)
    same = [culprit for culprit in culprits if culprit.rank == rank]
    if len(same) <= len(repeats) / 2:
        return None
    intervals = [culprit.excess_s for culprit in same]
    estimates = [interval.estimate for interval in intervals]
    excess_s = fmean(estimates)
    # Systematic differences between cores are the same in all repeats: this part does not shrink with their number.
    half_s = fmean((interval.high - interval.low) / 2 for interval in intervals)
    if len(estimates) > 1:
        half_s = hypot(half_s, 2 * stdev(estimates) / sqrt(len(estimates)))
    phases = [culprit.phase for culprit in same]
    shares = {phase: fmean(culprit.phases.get(phase, 0.0) for culprit in same) for one in same for phase in one.phases}
    slower = [culprit.slower for culprit in same if culprit.slower is not None]
    return Culprit(
        rank=same[0].rank,
        phase=max(phases, key=phases.count),
        phases=dict(sorted(shares.items(), key=lambda item: -item[1])),
        share=fmean(culprit.share for culprit in same),
        wait_caused_s=fmean(culprit.wait_caused_s for culprit in same),
        excess_s=ConfidenceInterval(estimate=excess_s, low=excess_s - half_s, high=excess_s + half_s),
        slower=fmean(slower) if len(slower) > len(same) / 2 else None,
        steps=same[0].steps if len(same) == 1 else None,
    )
