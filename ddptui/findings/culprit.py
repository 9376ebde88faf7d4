"""Chooses the culprit: the rank whose own work the others waited for. Pure.

A rank becomes the culprit of a repeat if it exceeds all of the thresholds below; otherwise there is none. Where ranks
have clocks of their own, a rank that was late by less than the clocks may be off is not named. Over several repeats,
the culprit is the rank named in more than half.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from statistics import fmean, median

from ddptui.analysis.clock_error import WaitUncertainty
from ddptui.analysis.intervals import overlapping, total_ns
from ddptui.analysis.results import ConfidenceInterval, Culprit, RepeatResult
from ddptui.analysis.waits import AlignedStep, Wait
from ddptui.findings.excess import PAUSE_NS, Excess, excess_of_rank
from ddptui.text.units import S
from ddptui.wire.messages import GATHER_OUTPUTS
from ddptui.wire.phases import PARTS

# Of all the waiting that ranks' own work caused; below a half, since noise of the other ranks takes its part.
SHARE_OF_BLAME = 0.4
# Shares of the train time. The rank lost more than MATTERS, with the lower end of the interval above half of that. Each
# of the others waited half of it for this rank, on average: not every loss is waited for. A rank that was slower in
# every phase, or that other programs disturbed, lost more than MATTERS_IF_UNCLEAR, with the whole interval beyond that.
# TraceML warns from a tenth on.
# Without any injected delay, two ranks on two cores showed excesses of up to 0.05 in single phases (56 runs of 100
# steps), and of up to 0.09 where a rank was slower everywhere: one core was slower than the other, for a fifth of a
# second by half.
MATTERS = 0.10
MATTERS_IF_UNCLEAR = 0.20
# Replicas of `dp` are threads of one process, and take turns with Python's lock: which comes last is chance. With a
# model of microseconds they came 0.2 ms a step apart.
LOCK_NS = 500_000


class WaitAttribution:
    """Attributes waits to the ranks whose own work caused them, along chains of ranks that wait for each other."""

    def __init__(self, steps: Sequence[AlignedStep]) -> None:
        ranks = sorted({rank for step in steps for rank in step.ranks})
        self._waits = {rank: [wait for step in steps for wait in step.ranks[rank].waits] for rank in ranks}
        self._idle = {rank: [interval for step in steps for interval in step.ranks[rank].idle] for rank in ranks}

    def caused_ns(self) -> dict[int, int]:
        """By rank, how long all others together waited for its own work, in ns."""
        # Waits for transfers among other ranks are in none of these: no rank's work caused them.
        caused_ns = dict.fromkeys(self._waits, 0)
        for rank, waits in self._waits.items():
            for wait in waits:
                for cause, ns in self._causes(wait, frozenset((rank,))):
                    caused_ns[cause] += ns
        return caused_ns

    def _causes(self, wait: Wait, seen: frozenset[int]) -> list[tuple[int, int]]:
        """Ranks and ns. While the late rank waits itself, the cause is the rank that it waits for."""
        late = wait.late_rank
        idle = overlapping(self._idle[late], wait.begin, wait.end)
        causes = [(late, wait.end - wait.begin - total_ns(idle))]  # what it worked meanwhile
        # Ranks may wait for each other at once, in different operations: each is followed only once.
        if late not in seen:
            for inner in _overlapping_waits(self._waits[late], wait.begin, wait.end):
                causes += self._causes(inner, seen | {late})
        return causes


def _overlapping_waits(waits: list[Wait], begin: int, end: int) -> list[Wait]:
    first = max(0, bisect_left(waits, (begin, begin, -1)) - 1)  # the wait before may reach into the interval
    parts = []
    for wait in waits[first:]:
        if wait.begin >= end:
            break
        if wait.end > begin:
            parts.append(Wait(max(begin, wait.begin), min(end, wait.end), wait.late_rank))
    return parts


def choose_culprit(
    steps: Sequence[AlignedStep], train_ns: int, caused_ns: Mapping[int, int], waited_ns: int, *, disturbed: bool
) -> Culprit | None:
    """The culprit of one repeat of at least two ranks; None if no rank stands out. waited_ns: all ranks together.
    disturbed: by other programs."""
    rank = _most_waited_for(caused_ns, train_ns)
    if rank is None:
        return None
    excess = excess_of_rank(steps, rank)
    if _are_replicas(steps) and excess.estimate < LOCK_NS * len(steps):
        return None
    if not excess.lost or not _stands_out(excess, train_ns, disturbed=disturbed):
        return None
    worst_step, worst_ns = excess.worst
    return Culprit(
        rank=rank,
        phase=PARTS[excess.lost[0][0]],
        phases={PARTS[part]: ns / sum(ns for _, ns in excess.lost) for part, ns in excess.lost},
        share=caused_ns[rank] / waited_ns,
        wait_caused_s=caused_ns[rank] / S,
        excess_s=ConfidenceInterval(estimate=excess.estimate / S, low=excess.low / S, high=excess.high / S),
        slower=excess.slower if excess.everywhere else None,
        step=worst_step if worst_ns > excess.estimate / 2 else None,
    )


def _are_replicas(steps: Sequence[AlignedStep]) -> bool:
    return any(call.kind == GATHER_OUTPUTS for rank in steps[0].ranks.values() for call in rank.step.collectives)


def _stands_out(excess: Excess, train_ns: int, *, disturbed: bool) -> bool:
    unclear = excess.everywhere or disturbed
    enough_ns = (MATTERS_IF_UNCLEAR if unclear else MATTERS) * train_ns
    # Half of that remains without its worst moments, unless one step took longer than any pause of the scheduler.
    _, worst_ns = excess.worst
    recurs = excess.estimate - excess.burst > enough_ns / 2 or worst_ns > PAUSE_NS
    is_sure = excess.low > (enough_ns if unclear else enough_ns / 2)
    return excess.estimate > enough_ns and is_sure and recurs


def rank_without_core(
    steps: Sequence[AlignedStep], train_ns: int, caused_ns: Mapping[int, int], uncertainty: WaitUncertainty | None
) -> int | None:
    """The rank that the others waited for since other programs had its core; None if there is none. steps: of at least
    two ranks, beside such programs. A culprit may be another rank, or the same: it may be late for more than one
    reason."""
    rank = _most_waited_for(caused_ns, train_ns)
    if rank is None:
        return None
    queued = {other: [step.ranks[other].step.queued_ns for step in steps] for other in caused_ns}
    longer_ns = sum(queued[rank]) - median(sum(by_step) for other, by_step in queued.items() if other != rank)
    recurs = longer_ns - max(queued[rank]) > MATTERS / 2 * train_ns
    if uncertainty and longer_ns / len(steps) < _error_ns(rank, uncertainty):
        return None
    return rank if longer_ns > MATTERS * train_ns and recurs else None


def _most_waited_for(caused_ns: Mapping[int, int], train_ns: int) -> int | None:
    """The rank that most of the waiting was for; None if no rank had so much of it, or if it was little."""
    rank = max(caused_ns, key=lambda rank: caused_ns[rank])
    share_of_blame = caused_ns[rank] / (sum(caused_ns.values()) or 1)  # of no waiting at all, a share of 0
    mean_wait_ns = caused_ns[rank] / (len(caused_ns) - 1)
    return rank if share_of_blame >= SHARE_OF_BLAME and mean_wait_ns >= MATTERS / 2 * train_ns else None


def is_within_clock_error(culprit: Culprit, steps: int, uncertainty: WaitUncertainty) -> bool:
    """Whether the culprit was late by less, per step, than the clocks may put off the others' waits."""
    others = len(uncertainty.by_rank) - 1
    late_s = min(culprit.excess_s.estimate, culprit.wait_caused_s / others) / steps
    return late_s * S < _error_ns(culprit.rank, uncertainty)


def _error_ns(late_rank: int, uncertainty: WaitUncertainty) -> float:
    """How far the clocks may put off a wait of the other ranks, on average."""
    return fmean(ns for rank, errors in uncertainty.by_rank.items() if rank != late_rank for ns in errors)


def culprit_of_repeats(repeats: Sequence[RepeatResult]) -> Culprit | None:
    """The rank that is the culprit in more than half of the repeats. Its figures are means over those."""
    culprits = [repeat.culprit for repeat in repeats if repeat.culprit]
    ranks = [culprit.rank for culprit in culprits]
    rank = max(ranks, key=ranks.count, default=None)
    same = [culprit for culprit in culprits if culprit.rank == rank]
    if len(same) <= len(repeats) / 2:
        return None
    intervals = [culprit.excess_s for culprit in same]
    excess_s = fmean(interval.estimate for interval in intervals)
    # Repeats are independent, so the interval of their mean is narrower than theirs.
    half_s = sum(((interval.high - interval.low) / 2) ** 2 for interval in intervals) ** 0.5 / len(intervals)
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
        step=same[0].step if len(same) == 1 else None,  # repeats lose their time in different steps
        steps=same[0].steps if len(same) == 1 else None,
    )
