"""Analyzes the waiting of a repeat: shares of wait and transfer, a verdict in a word, and the culprit if there is one.
Pure. Thresholds of the culprit are in culprit.py.

No verdict is given on thin evidence, nor where the ranks' clocks may be further apart than the ranks waited, nor where
their devices may be behind the times.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from ddptui.analysis.cautions import FEWEST_STEPS
from ddptui.analysis.clock_error import WaitUncertainty, exceeds_waits, wait_uncertainty
from ddptui.analysis.results import Culprit, Verdict
from ddptui.analysis.waits import AlignedSteps, align_steps
from ddptui.findings.culprit import (
    MATTERS,
    WaitAttribution,
    choose_culprit,
    is_within_clock_error,
    rank_without_core,
)
from ddptui.wire.messages import Step

MOSTLY = 2 / 3  # of waiting and transfer together: the verdict names one that is twice as much as the other


class WaitAnalysis(NamedTuple):
    """How long the ranks waited in some steps, and which rank caused it."""

    aligned: AlignedSteps
    train_ns: int  # from the first step's begin to the last one's end
    wait_share: float  # of the train time that a rank was idle for a late rank; mean over ranks
    transfer_share: float  # likewise for transfers
    caused_ns: dict[int, int]  # by rank, how long the others waited for its own work
    verdict: Verdict
    culprit: Culprit | None
    rank_without_core: int | None = None  # late since other programs had its core
    uncertainty: WaitUncertainty | None = None  # of the waits; None: all ranks have one clock
    withheld: bool = False  # the clocks may be further apart than the ranks waited, so who waited is not known; or so:
    host_time: bool = False  # devices may be behind the times


def analyze_waits(steps: Mapping[int, Sequence[Step]]) -> WaitAnalysis | None:
    """The analysis of steps by rank. None: there is no operation, or no step that all ranks have."""
    return analyze_aligned(align_steps(steps))


def analyze_aligned(aligned: AlignedSteps, *, disturbed: bool = False) -> WaitAnalysis | None:
    """The analysis of steps that are aligned already. disturbed: other programs kept cores busy meanwhile."""
    steps = aligned.steps
    if not any(of_rank.step.collectives for step in steps for of_rank in step.ranks.values()):
        return None
    ranks = sorted(steps[0].ranks)
    begin_ns = min(of_rank.step.begin_ns for of_rank in steps[0].ranks.values())
    train_ns = max(of_rank.step.end_ns for of_rank in steps[-1].ranks.values()) - begin_ns
    waited_ns = [sum(step.ranks[rank].wait_ns for step in steps) for rank in ranks]
    exposed_ns = [sum(step.ranks[rank].exposed_ns for step in steps) for rank in ranks]
    wait, transfer = fmean(waited_ns) / train_ns, (fmean(exposed_ns) - fmean(waited_ns)) / train_ns
    caused_ns = WaitAttribution(steps).caused_ns()
    uncertainty = wait_uncertainty(steps)
    host_time = steps[0].host_time
    withheld = host_time or (uncertainty is not None and exceeds_waits(steps, uncertainty))
    enough = len(steps) >= FEWEST_STEPS and not withheld
    # A group of one rank has collectives, too, but no others who wait.
    culprit = without_core = None
    if enough and len(ranks) > 1:
        culprit = choose_culprit(steps, train_ns, caused_ns, sum(waited_ns), disturbed=disturbed)
        without_core = rank_without_core(steps, train_ns, caused_ns, uncertainty) if disturbed else None
    unsure = culprit and uncertainty and is_within_clock_error(culprit, len(steps), uncertainty)
    return WaitAnalysis(
        aligned=aligned,
        train_ns=train_ns,
        wait_share=wait,
        transfer_share=transfer,
        caused_ns=caused_ns,
        verdict=verdict_for(wait, transfer) if enough else "inconclusive",
        culprit=None if unsure else culprit,
        rank_without_core=without_core,
        uncertainty=uncertainty,
        withheld=withheld,
        host_time=host_time,
    )


def verdict_for(wait_share: float, transfer_share: float) -> Verdict:
    """The verdict for these shares of the train time."""
    both = wait_share + transfer_share
    if both < MATTERS:
        return "inconclusive"
    if wait_share >= MOSTLY * both:
        return "skew"
    return "transfer" if transfer_share >= MOSTLY * both else "mixed"
