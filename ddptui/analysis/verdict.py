"""What the waiting of a trial comes to: its shares, its culprit if one stands out, and a word for it. Pure.

Nothing is said on thin evidence. The thresholds, and where they come from:

    FEWEST_STEPS  TraceML calls no straggler critical before 20 steps
    MATTERS       TraceML warns from a tenth of the time on. With nothing put in, 56 times 100 steps of two ranks on two
                  cores had excesses of up to 0.05 of the train time in single phases: half of that. And half of it
                  is what each of the others must have waited on average: not every loss is waited for.
                  (A loss's interval may reach down to half of it, too)
    EVERYWHERE    but up to 0.09 where a rank was slower in all phases: one core was slower than the other, and for a
                  fifth of a second by half (so here, the interval of the loss must be beyond it)
    MOSTLY        of waiting or transfer, to be called by its name: twice as much as the other
    FAIR          of all the waiting that ranks' own work caused, a culprit's share is nearly half or more
    PAUSE_NS      a single step may make a culprit only if it lost more than the scheduler ever takes

Where ranks have clocks of their own, nothing is said of waiting that is no longer than these may put it off; and no
culprit is named that was later by less.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import NamedTuple

from ddptui.analysis.clock_error import WaitUncertainty, exceeds_waits, wait_uncertainty
from ddptui.analysis.excess import Excess, excess_of_rank
from ddptui.analysis.results import ConfidenceInterval, Culprit, Verdict, WhatIf
from ddptui.analysis.waits import PARTS, AlignedStep, AlignedSteps, WaitAttribution, align_steps
from ddptui.analysis.what_if import Work, all_alike, as_measured, replay
from ddptui.wire.messages import Pause, Step

S = 1e9  # ns

FEWEST_STEPS = 20
MATTERS = 0.10
EVERYWHERE = 0.20
MOSTLY = 2 / 3
FAIR = 0.4
PAUSE_NS = 250e6


class WaitAnalysis(NamedTuple):
    """Of some steps of all ranks. wait, transfer: how much of the time a rank was idle for it, mean over ranks;
    caused: what the others waited for each rank's own work, ns; doubt: none, where all ranks have one clock; withheld:
    their clocks may be further apart than they waited, so that who waited is not known."""

    joints: AlignedSteps
    train_ns: int
    wait: float
    transfer: float
    caused: dict[int, int]
    verdict: Verdict
    culprit: Culprit | None
    uncertainty: WaitUncertainty | None = None
    withheld: bool = False


def analyze_waits(steps: Mapping[int, Sequence[Step]], pauses: Sequence[Pause] = ()) -> WaitAnalysis | None:
    """None if there is nothing to judge: no operation, or no step that can be joined."""
    return analyze_aligned(align_steps(steps, pauses))


def analyze_aligned(joints: AlignedSteps) -> WaitAnalysis | None:
    """The same of steps that are side by side already."""
    joined = joints.steps
    if not any(own.step.collectives for step in joined for own in step.ranks.values()):
        return None
    ranks = sorted(joined[0].ranks)
    begin = min(own.step.begin_ns for own in joined[0].ranks.values())
    train_ns = max(own.step.end_ns for own in joined[-1].ranks.values()) - begin
    waited = [sum(step.ranks[rank].wait_ns for step in joined) for rank in ranks]
    exposed = [sum(step.ranks[rank].exposed_ns for step in joined) for rank in ranks]
    wait, transfer = fmean(waited) / train_ns, (fmean(exposed) - fmean(waited)) / train_ns
    caused = WaitAttribution(joined).of_all()
    found = wait_uncertainty(joined)
    withheld = found is not None and exceeds_waits(joined, found)
    enough = len(joined) >= FEWEST_STEPS and not withheld
    culprit = _culprit(joined, train_ns, caused, sum(waited)) if enough and len(ranks) > 1 else None
    return WaitAnalysis(
        joints=joints,
        train_ns=train_ns,
        wait=wait,
        transfer=transfer,
        caused=caused,
        verdict=verdict_for(wait, transfer) if enough else "inconclusive",
        culprit=None if culprit and found and is_hardly_late(culprit, len(joined), found) else culprit,
        uncertainty=found,
        withheld=withheld,
    )


def is_hardly_late(culprit: Culprit, steps: int, found: WaitUncertainty) -> bool:
    """By less, step by step, than how far off the others' waiting may be."""
    others = [error_ns for rank, errors in found.by_rank.items() if rank != culprit.rank for error_ns in errors]
    late_s = min(culprit.excess_s.estimate, culprit.wait_caused_s / (len(found.by_rank) - 1)) / steps
    return late_s * S < fmean(others)


def verdict_for(wait: float, transfer: float) -> Verdict:
    """For these shares of the time."""
    both = wait + transfer
    if both < MATTERS:
        return "inconclusive"
    if wait >= MOSTLY * both:
        return "skew"
    return "transfer" if transfer >= MOSTLY * both else "mixed"


def _culprit(joined: Sequence[AlignedStep], train_ns: int, caused: Mapping[int, int], waited: int) -> Culprit | None:
    rank = max(caused, key=lambda rank: caused[rank])
    share_of_all, each_waited = caused[rank] / (sum(caused.values()) or 1), caused[rank] / (len(caused) - 1)
    if share_of_all < FAIR or each_waited < MATTERS / 2 * train_ns:
        return None
    found = excess_of_rank(joined, rank)
    if not found.lost or not _stands_out(found, train_ns):
        return None
    step, loss = found.worst
    return Culprit(
        rank=rank,
        phase=PARTS[found.lost[0][0]],
        phases={PARTS[part]: ns / sum(ns for _, ns in found.lost) for part, ns in found.lost},
        share=caused[rank] / waited,
        wait_caused_s=caused[rank] / S,
        excess_s=ConfidenceInterval(estimate=found.estimate / S, low=found.low / S, high=found.high / S),
        slower=found.slower if found.everywhere else None,
        step=step if loss > found.estimate / 2 else None,
    )


def _stands_out(found: Excess, train_ns: int) -> bool:
    enough = (EVERYWHERE if found.everywhere else MATTERS) * train_ns
    _, worst = found.worst
    recurs = found.estimate - worst > enough / 2 or worst > PAUSE_NS
    sure = found.low > (enough if found.everywhere else enough / 2)
    return found.estimate > enough and sure and recurs


def what_if(judgement: WaitAnalysis) -> WhatIf:
    """The train time with the culprit's work replaced by what the others worked; and with all ranks' work alike."""
    joined, measured_s = judgement.joints.steps, judgement.train_ns / S
    culprit = judgement.culprit.rank if judgement.culprit else None
    work = as_measured if culprit is None else _like_the_others(culprit)
    scale = measured_s / replay(joined)
    without = measured_s if culprit is None else min(measured_s, replay(joined, work) * scale)
    return WhatIf(
        without_culprit=without if culprit is not None else None,
        without_skew=min(without, replay(joined, all_alike(work)) * scale),
    )


def _like_the_others(culprit: int) -> Work:
    def work(step: AlignedStep, rank: int) -> Sequence[float]:
        if rank != culprit:
            return as_measured(step, rank)
        others = [own.work_ns for other, own in step.ranks.items() if other != culprit]
        return [median(parts) for parts in zip(*others, strict=True)]

    return work
