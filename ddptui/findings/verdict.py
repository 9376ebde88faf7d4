"""Judges a window: how long ranks waited, for which ranks, and whether one rank is late. Pure. All surfaces (headline,
tables, matrix, result, page) show this one judgement.

No rank is named if the evidence is thin, if the clock error exceeds the waits, or if times are host times.
"""

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from ddptui.analysis.culprit import WaitAnalysis, WaitUncertainty, verdict_for
from ddptui.analysis.finding import Finding, Kind, Severity
from ddptui.analysis.late import Excess, Window, chance_of_waits, excess_of_rank
from ddptui.analysis.places import lines_of_excess
from ddptui.analysis.policy import (
    CHANCE,
    FEWEST_STEPS,
    LATE_IN_ALL_PHASES,
    LATE_IN_ONE_PHASE,
    LOCK_NS,
    MATTERS,
    MOST_OF_WAITING,
)
from ddptui.analysis.results import ConfidenceInterval, Culprit
from ddptui.analysis.waits import AlignedSteps, align_steps
from ddptui.findings.time import all_findings, idle_shares
from ddptui.text.words import MS, S, count
from ddptui.wire.messages import Step
from ddptui.wire.phases import PARTS

LOOK_AT = {  # advice, by the part of its work in which a rank is late
    "data": "Look at how it loads data: its disk, and `num_workers`",
    "forward": "Check whether the rank has a slower, hotter or shared device, or a larger batch",
    "backward": "Check whether the rank has a slower, hotter or shared device, or a larger batch",
    "aggregate": "Look at what it does before it calls the collective",
    "optimizer": "Look at what only this rank does around its optimizer step",
    "between steps": "Look at what its loop does between steps: logging, evaluation, checkpoints",
}
EVERYWHERE = "Give it a core or a device like the others': it is slower in every phase"
OWN_CORE = "End those programs, or give each rank cores of its own (taskset)"


def analyze_waits(steps: Mapping[int, Sequence[Step]]) -> WaitAnalysis | None:
    """Analyzes the waits in steps, given by rank. None: no operation, or no step that all ranks have."""
    return analyze_aligned(align_steps(steps))


def analyze_aligned(
    aligned: AlignedSteps, *, disturbed: bool = False, restarts: Mapping[int, str] | None = None, watched: bool = False
) -> WaitAnalysis | None:
    """Analyzes the waits in aligned steps; None if they have no operation. The options are those of a Window."""
    window = Window(aligned.steps, disturbed, restarts or {}, watched, aligned.lines, aligned.loaders)
    steps, ranks = window.steps, window.ranks
    if not any(of_rank.step.collectives for step in steps for of_rank in step.ranks.values()):
        return None
    whole_ns = window.covered_ns
    wait, transfer = idle_shares(window)
    caused_ns = dict(zip(ranks, map(int, window.caused.sum(axis=0)), strict=True))
    # A group of a single rank has collectives, too, but no rank waits.
    claim = _claim(window, caused_ns) if window.waits_are_known else None
    findings = all_findings(window, [*_findings(claim, caused_ns, window)] if claim else [])
    found = {finding.kind for finding in findings}
    enough = len(steps) >= FEWEST_STEPS and not window.withheld
    return WaitAnalysis(
        aligned=aligned,
        train_ns=max(of_rank.step.end_ns for of_rank in steps[-1].ranks.values())
        - min(of_rank.step.begin_ns for of_rank in steps[0].ranks.values()),
        covered_ns=whole_ns,
        wait_share=wait,
        transfer_share=transfer,
        caused_ns=caused_ns,
        verdict=verdict_for(wait, transfer) if enough else "inconclusive",
        culprit=_culprit(claim, caused_ns, wait * whole_ns * len(ranks)) if claim and Kind.LATE_RANK in found else None,
        rank_without_core=claim.rank if claim and Kind.NO_CORE in found else None,
        uncertainty=window.uncertainty,
        withheld=window.withheld,
        host_time=steps[0].host_time,
        findings=tuple(findings),
    )


class Claim(NamedTuple):
    """The claim that the others wait for this rank."""

    rank: int
    excess: Excess
    doubt: str  # why the claim is rejected, the end of a sentence; empty: the claim holds
    without_core: bool  # the rank lost much time because other programs had its core


def _claim(window: Window, caused_ns: Mapping[int, int]) -> Claim | None:
    """The claim about the rank that the others waited for most, among certain claims; without any, among all. None: the
    ranks hardly wait."""
    claims = []
    by_waiting = sorted(caused_ns, key=lambda rank: -caused_ns[rank])
    least_ns = LATE_IN_ONE_PHASE / 2 * window.covered_ns * (len(caused_ns) - 1)
    for rank in by_waiting:
        if caused_ns[rank] < least_ns:
            break
        by_chance = chance_of_waits(window.caused, 2 * least_ns / len(window.steps)) if rank == by_waiting[0] else 1.0
        claims.append(_claim_of(window, rank, by_chance, caused_ns))
    return next((claim for claim in claims if not claim.doubt), claims[0] if claims else None)


def _claim_of(window: Window, rank: int, chance: float, caused_ns: Mapping[int, int]) -> Claim:
    """The claim about one rank. chance: how often any rank would cause so much waiting by chance."""
    steps, whole_ns = window.steps, window.covered_ns
    excess = excess_of_rank(window, rank, LATE_IN_ONE_PHASE * whole_ns / len(steps))
    doubt = _doubt(window, chance, excess)
    late_ns = min(excess.estimate, caused_ns[rank] / (len(caused_ns) - 1)) / len(steps)
    if window.uncertainty and is_within_clock_error(late_ns, rank, window.uncertainty):
        doubt = doubt or "it was late by less than the clock error"
    without_core = window.disturbed and excess.queued >= MATTERS * whole_ns and chance <= CHANCE
    return Claim(rank, excess, doubt, without_core)


def _doubt(window: Window, chance: float, excess: Excess) -> str:
    steps, whole_ns = window.steps, window.covered_ns
    if len(steps) < FEWEST_STEPS and chance > CHANCE:
        return f"{count(len(steps), 'step is', 'steps are')} few"
    if (
        excess.worked < (LATE_IN_ALL_PHASES if excess.slower else LATE_IN_ONE_PHASE) * whole_ns
        or excess.estimate < excess.half
    ):
        return "its own work did not take much longer than that of the others"
    if window.are_replicas and excess.estimate < LOCK_NS * len(steps):
        return "replicas take turns with Python's lock"
    if chance > CHANCE and not excess.is_steady:
        return "its lateness comes and goes, and may be chance"
    return ""


def is_within_clock_error(late_ns: float, late_rank: int, uncertainty: WaitUncertainty) -> bool:
    """Whether the rank's lateness per step is below the clock error of the others' waits."""
    return late_ns < fmean(ns for rank, errors in uncertainty.by_rank.items() if rank != late_rank for ns in errors)


def _culprit(claim: Claim, caused_ns: Mapping[int, int], waited_ns: float) -> Culprit:
    excess = claim.excess
    lost = sum(ns for _, ns in excess.lost)
    low, high = excess.estimate - excess.half, excess.estimate + excess.half
    return Culprit(
        rank=claim.rank,
        phase=PARTS[excess.lost[0][0]],
        phases={PARTS[part]: ns / lost for part, ns in excess.lost},
        share=caused_ns[claim.rank] / waited_ns,
        wait_caused_s=caused_ns[claim.rank] / S,
        excess_s=ConfidenceInterval(estimate=excess.estimate / S, low=low / S, high=high / S),
        slower=excess.slower,
    )


def _findings(claim: Claim, caused_ns: Mapping[int, int], window: Window) -> Iterator[Finding]:
    """The findings about the rank that caused most of the waiting."""
    rank, excess, steps, whole_ns = claim.rank, claim.excess, len(window.steps), window.covered_ns
    caused_share = caused_ns[rank] / (len(caused_ns) - 1) / whole_ns  # share of the others' time
    of_waiting = caused_ns[rank] / (sum(caused_ns.values()) or 1)
    numbers = {
        "late_ms": excess.estimate / MS / steps,
        "off_by_ms": excess.half / MS / steps,
        "share": caused_share,
        "of_waiting_share": of_waiting,
    }
    if excess.cpu is not None:
        numbers["cpu_times"] = excess.cpu
    if excess.blocked is not None:
        numbers["blocked_share"] = excess.blocked
    severity: Severity = "critical" if caused_share >= 2 * MATTERS else "warning" if caused_share >= MATTERS else "note"
    phase = PARTS[excess.lost[0][0]]
    if claim.without_core:
        queued = {"queued_ms": excess.queued / MS / steps}
        yield Finding(kind=Kind.NO_CORE, severity=severity, rank=rank, numbers=numbers | queued, action=OWN_CORE)
    if not claim.doubt:
        numbers |= {f"in_{PARTS[part]}_share": ns / excess.estimate for part, ns in excess.lost}
        numbers |= {"slower": excess.slower} if excess.slower else {}
        numbers |= window.loaders[rank].numbers if phase == "data" and rank in window.loaders else {}
        lines = () if excess.slower else lines_of_excess(window.spots, rank, dict(excess.lost), steps)
        numbers |= {"unexplained_ms": numbers["late_ms"] - sum(line.ms for line in lines)} if lines else {}
        yield Finding(
            kind=Kind.LATE_RANK,
            severity=severity,
            rank=rank,
            phase=phase,
            place=lines[0].place if lines else None,
            lines=lines,
            numbers=numbers,
            action=EVERYWHERE if excess.slower else LOOK_AT[phase],
        )
    elif not claim.without_core and of_waiting >= MOST_OF_WAITING and caused_share >= MATTERS:
        yield Finding(
            kind=Kind.UNCERTAIN, severity=severity, rank=rank, phase=phase, numbers=numbers, doubt=claim.doubt
        )
