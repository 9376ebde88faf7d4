"""Chooses the culprit: the rank whose own work the others waited for, if it stands out. Pure."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from statistics import fmean

from ddptui.analysis.clock_error import WaitUncertainty
from ddptui.analysis.excess import Excess, excess_of_rank
from ddptui.analysis.intervals import overlapping, total_ns
from ddptui.analysis.own_work import PARTS
from ddptui.analysis.results import ConfidenceInterval, Culprit, RepeatResult
from ddptui.analysis.waits import AlignedStep, Wait
from ddptui.text.units import S


class WaitAttribution:
    """Whose own work the others waited for, in the end: who waits for a rank that waits itself, waits for a third."""

    def __init__(self, steps: Sequence[AlignedStep]) -> None:
        ranks = sorted({rank for step in steps for rank in step.ranks})
        self._waits = {rank: [wait for step in steps for wait in step.ranks[rank].waits] for rank in ranks}
        self._idle = {rank: [each for step in steps for each in step.ranks[rank].idle] for rank in ranks}

    def caused_ns(self) -> dict[int, int]:
        """How long all other ranks together waited for each one's own work, ns. (They also wait for transfers among
        others, which is nobody's.)"""
        caused = dict.fromkeys(self._waits, 0)
        for rank, waits in self._waits.items():
            for wait in waits:
                for whom, ns in self._of(wait, frozenset((rank,))):
                    caused[whom] += ns
        return caused

    def _of(self, wait: Wait, seen: frozenset[int]) -> list[tuple[int, int]]:
        begin, end, whom = wait
        taken = overlapping(self._idle[whom], begin, end)
        blamed = [(whom, end - begin - total_ns(taken))]
        if whom not in seen:
            for other_begin, other_end, third in _overlapping_waits(self._waits[whom], begin, end):
                blamed += self._of(Wait(other_begin, other_end, third), seen | {whom})
        return blamed


def _overlapping_waits(waits: list[Wait], begin: int, end: int) -> list[Wait]:
    first = max(0, bisect_left(waits, (begin, begin, -1)) - 1)
    found = []
    for wait in waits[first:]:
        if wait.begin >= end:
            break
        if wait.end > begin:
            found.append(Wait(max(begin, wait.begin), min(end, wait.end), wait.late_rank))
    return found


MATTERS = 0.10
EVERYWHERE = 0.20
FAIR = 0.4
PAUSE_NS = 250e6


def is_hardly_late(culprit: Culprit, steps: int, found: WaitUncertainty) -> bool:
    """By less, step by step, than how far off the others' waiting may be."""
    others = [error_ns for rank, errors in found.by_rank.items() if rank != culprit.rank for error_ns in errors]
    late_s = min(culprit.excess_s.estimate, culprit.wait_caused_s / (len(found.by_rank) - 1)) / steps
    return late_s * S < fmean(others)


def choose_culprit(
    joined: Sequence[AlignedStep], train_ns: int, caused: Mapping[int, int], waited: int
) -> Culprit | None:
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


def culprit_of_repeats(repeats: Sequence[RepeatResult]) -> Culprit | None:
    """The rank that stands out in more than half of the repeats; its figures are means over those. The intervals of
    independent repeats shrink as they are averaged."""
    named = [repeat.culprit for repeat in repeats if repeat.culprit]
    ranks = [found.rank for found in named]
    rank = max(ranks, key=ranks.count, default=None)
    own = [found for found in named if found.rank == rank]
    if len(own) <= len(repeats) / 2:
        return None
    phases = [found.phase for found in own]
    slower = [found.slower for found in own if found.slower is not None]
    half = sum(((found.excess_s.high - found.excess_s.low) / 2) ** 2 for found in own) ** 0.5 / len(own)
    estimate = fmean(found.excess_s.estimate for found in own)
    return Culprit(
        rank=own[0].rank,
        phase=max(phases, key=phases.count),
        phases=_mean_shares([found.phases for found in own]),
        share=fmean(found.share for found in own),
        wait_caused_s=fmean(found.wait_caused_s for found in own),
        excess_s=ConfidenceInterval(estimate=estimate, low=estimate - half, high=estimate + half),
        slower=fmean(slower) if len(slower) > len(own) / 2 else None,
        step=own[0].step if len(own) == 1 else None,
    )


def _mean_shares(repeats: Sequence[dict[str, float]]) -> dict[str, float]:
    """Largest first."""
    means = {phase: fmean(parts.get(phase, 0.0) for parts in repeats) for parts in repeats for phase in parts}
    return dict(sorted(means.items(), key=lambda item: -item[1]))
