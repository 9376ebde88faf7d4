"""The wait analysis of some steps, the verdict on its shares, and the culprit over several repeats. Pure."""

from collections.abc import Sequence
from math import hypot, sqrt
from statistics import fmean, stdev
from typing import NamedTuple

from ddptui.analysis.clock_error import WaitUncertainty
from ddptui.analysis.finding import Finding
from ddptui.analysis.policy import MATTERS
from ddptui.analysis.results import ConfidenceInterval, Culprit, RepeatResult, Verdict
from ddptui.analysis.waits import AlignedSteps

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
