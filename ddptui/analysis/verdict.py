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
from statistics import fmean
from typing import NamedTuple

from ddptui.analysis.clock_error import WaitUncertainty, exceeds_waits, wait_uncertainty
from ddptui.analysis.culprit import MATTERS, WaitAttribution, choose_culprit, is_hardly_late
from ddptui.analysis.results import Culprit, Verdict
from ddptui.analysis.waits import AlignedSteps, align_steps
from ddptui.wire.messages import Pause, Step

FEWEST_STEPS = 20
MOSTLY = 2 / 3


class WaitAnalysis(NamedTuple):
    """Of some steps of all ranks. wait, transfer: how much of the time a rank was idle for it, mean over ranks;
    caused_ns: what the others waited for each rank's own work; uncertainty: none where all ranks have one clock; withheld:
    their clocks may be further apart than they waited, so that who waited is not known."""

    aligned: AlignedSteps
    train_ns: int
    wait_share: float
    transfer_share: float
    caused_ns: dict[int, int]
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
    caused = WaitAttribution(joined).caused_ns()
    found = wait_uncertainty(joined)
    withheld = found is not None and exceeds_waits(joined, found)
    enough = len(joined) >= FEWEST_STEPS and not withheld
    culprit = choose_culprit(joined, train_ns, caused, sum(waited)) if enough and len(ranks) > 1 else None
    return WaitAnalysis(
        aligned=joints,
        train_ns=train_ns,
        wait_share=wait,
        transfer_share=transfer,
        caused_ns=caused,
        verdict=verdict_for(wait, transfer) if enough else "inconclusive",
        culprit=None if culprit and found and is_hardly_late(culprit, len(joined), found) else culprit,
        uncertainty=found,
        withheld=withheld,
    )


def verdict_for(wait: float, transfer: float) -> Verdict:
    """For these shares of the time."""
    both = wait + transfer
    if both < MATTERS:
        return "inconclusive"
    if wait >= MOSTLY * both:
        return "skew"
    return "transfer" if transfer >= MOSTLY * both else "mixed"
