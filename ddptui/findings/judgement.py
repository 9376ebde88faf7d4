"""Judges one window of a running launch; headline, rank table and arrivals all show this judgement. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

from ddptui.analysis.culprit import WaitAnalysis
from ddptui.analysis.finding import Finding, Kind
from ddptui.analysis.policy import MATTERS
from ddptui.analysis.waits import AlignedStep, AlignedSteps


class Judgement(NamedTuple):
    """The wait analysis of a window of steps, and the rank that the others wait for."""

    analysis: WaitAnalysis
    disturbed: bool  # other programs kept cores busy
    waits_for: dict[int, int]  # waiting rank -> late rank, for ranks that wait for it at least a tenth of the time
    rank: int | None  # the rank that the others wait for: certain by measurement, or because it has a delay
    doubted: Finding | None  # otherwise, the rank that caused most of the waiting, with the doubt

    @property
    def steps(self) -> list[AlignedStep]:
        """The steps of the window."""
        return self.analysis.aligned.steps


def judge(aligned: AlignedSteps, *, disturbed: bool, is_young: bool) -> Judgement | None:
    """Judges these steps; None if they have no operation. is_young: delays were changed recently, so no rank is named
    by measurement alone."""
    from ddptui.findings.verdict import analyze_aligned  # imports numpy: not before the first judgement

    analysis = analyze_aligned(aligned, disturbed=disturbed)
    if analysis is None:
        return None
    if is_young:
        analysis = analysis._replace(culprit=None, rank_without_core=None, verdict="inconclusive", findings=())
    rank = analysis.culprit.rank if analysis.culprit else analysis.rank_without_core
    waits_for = {} if analysis.withheld else _waits_for(aligned.steps)
    if rank is None and waits_for:
        rank = _delayed(aligned.steps, analysis.caused_ns)
    if rank is None and is_young:
        return Judgement(analysis, disturbed, {}, None, None)
    doubted = next((finding for finding in analysis.findings if finding.kind is Kind.UNCERTAIN), None)
    if rank is not None or not waits_for:
        doubted = None
    late = doubted.rank if doubted else rank
    if late is not None:
        waits_for.pop(late, None)  # the late rank may wait now and then, but the others wait for it more
    return Judgement(analysis, disturbed, waits_for, rank, doubted)


def sleeps(step: AlignedStep, rank: int) -> set[str]:
    """The sites at which a delay was injected into a rank's step."""
    own = step.ranks[rank].step
    return {slept.at for slept in own.slept if slept.begin_ns >= own.begin_ns}


def _waits_for(steps: Sequence[AlignedStep]) -> dict[int, int]:
    waited: dict[int, dict[int, int]] = {rank: {} for rank in steps[0].ranks}
    took = dict.fromkeys(waited, 0)
    for aligned in steps:
        for rank, own in aligned.ranks.items():
            took[rank] += own.step.end_ns - own.step.begin_ns
            for wait in own.waits:
                waited[rank][wait.late_rank] = waited[rank].get(wait.late_rank, 0) + wait.end - wait.begin
    most = {rank: max(of_rank, key=lambda late: of_rank[late]) for rank, of_rank in waited.items() if of_rank}
    return {rank: late for rank, late in most.items() if waited[rank][late] >= MATTERS * took[rank]}


def _delayed(steps: Sequence[AlignedStep], caused_ns: dict[int, int]) -> int | None:
    """The rank that caused most of the waiting, if most of its steps have an injected delay; otherwise None."""
    rank = max(caused_ns, key=lambda rank: caused_ns[rank])
    is_delayed = 2 * sum(bool(sleeps(step, rank)) for step in steps) > len(steps)
    return rank if is_delayed and 2 * caused_ns[rank] > sum(caused_ns.values()) else None
