"""Names the rank whose own work the others wait for, or rejects the name. Pure.

A name is a claim. Were all ranks alike, any of them might have caused the waits of any moment; so the waits are dealt
out to the ranks anew, at random, block of steps by block of steps (a permutation test: Fisher, "The Design of
Experiments", 1935), and the claim stands if hardly any deal gives one rank as much. Ranks that pause by turns are not
named, be they two or eight. What the rank lost is then measured against the median of the others in the same steps,
part by part of its work, with an interval from the same blocks (batch means: Law, "Simulation Modeling and Analysis",
9.5.3), widened by what machines differ by for no reason.

Whether the rank has more work or a slower core shows in its shares, not in its seconds: who works longer also queues
longer for a core. What its thread did meanwhile is evidence: it was on a core, or in the queue for one; or neither, as
a thread that sleeps, or waits for a file.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import hypot, sqrt
from random import Random
from statistics import fmean, median, variance
from typing import Any, NamedTuple

from ddptui.analysis.intervals import overlapping, total_ns
from ddptui.analysis.policy import (
    A_LARGE_PART,
    BLOCKS_OF_WAITS,
    COLD,
    COLD_NS,
    FEWEST_BLOCKS,
    FEWEST_UNQUEUED,
    HARDLY_CPU,
    IN_ALL_PARTS,
    MOST_SHUFFLED,
    MOSTLY_CPU,
    PART_OF_LOSS,
    QUEUES_MORE,
    SHUFFLES,
    STEADILY,
    SYSTEMATIC,
    SYSTEMATIC_BESIDE_TRANSFERS,
)
from ddptui.analysis.waits import AlignedStep, RankStep, Wait
from ddptui.wire.phases import PARTS

AROUND = 4  # neighboring steps on either side
# Student's t, 95 %, for one degree of freedom less than there are blocks.
STUDENT = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36, 9: 2.31, 10: 2.26, 11: 2.23, 12: 2.20}
ByPart = Sequence[float]  # own work in ns, in the order of PARTS
_ALL = range(len(PARTS))
BACKWARD = PARTS.index("backward")


class WaitAttribution:
    """Attributes waits to the ranks whose own work caused them, along chains of ranks that wait for each other."""

    def __init__(self, steps: Sequence[AlignedStep]) -> None:
        self._steps = steps
        ranks = sorted({rank for step in steps for rank in step.ranks})
        self._waits = {rank: [wait for step in steps for wait in step.ranks[rank].waits] for rank in ranks}
        self._idle = {rank: [interval for step in steps for interval in step.ranks[rank].idle] for rank in ranks}

    def by_step(self) -> list[dict[int, int]]:
        """For each step, by rank, how long all others together waited for its own work, in ns."""
        # Waits for transfers among other ranks are in none of these: no rank's work caused them.
        caused = []
        for step in self._steps:
            of_step = dict.fromkeys(self._waits, 0)
            for rank, rank_step in step.ranks.items():
                for wait in rank_step.waits:
                    for cause, ns in self._causes(wait, frozenset((rank,))):
                        of_step[cause] += ns
            caused.append(of_step)
        return caused

    def caused_ns(self) -> dict[int, int]:
        """The same over all steps."""
        by_step = self.by_step()
        return {rank: sum(of_step[rank] for of_step in by_step) for rank in self._waits}

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


def chance_of_waits(caused: Sequence[Mapping[int, int]], least_ns: float) -> float:
    """How often one of the ranks would cause so much of the waiting by chance, were all alike. caused: by step.
    least_ns: a step; who causes less in most blocks does so since cores differ a little, and that does not count."""
    blocks = [[fmean(step[rank] for step in block) for rank in caused[0]] for block in _blocks(caused)]
    usual = [median(of_rank) for of_rank in zip(*blocks, strict=True)]
    little = [least_ns / 2 if ns >= least_ns else max(least_ns / 2, ns) for ns in usual]
    by_block = [[max(0.0, ns - less) for ns, less in zip(block, little, strict=True)] for block in blocks]
    ranks = len(by_block[0])
    if len(by_block) < FEWEST_BLOCKS or ranks < 2:
        return 1.0
    shuffles = max(199, min(SHUFFLES, MOST_SHUFFLED // (len(by_block) * ranks)))
    seen, as_much, random = max(map(sum, zip(*by_block, strict=True))), 0, Random(0)  # a replay finds the same
    for _ in range(shuffles):
        for block in by_block:
            random.shuffle(block)
        as_much += max(map(sum, zip(*by_block, strict=True))) >= seen
        if as_much > shuffles // 10:  # it will not stand (Besag and Clifford, "Sequential Monte Carlo p-values", 1991)
            break
    return (1 + as_much) / (1 + shuffles)


def _blocks(steps: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Neighboring steps together, about as many each time."""
    blocks = min(BLOCKS_OF_WAITS, len(steps))
    yield from (steps[begin:end] for begin, end in pairwise(at * len(steps) // blocks for at in range(blocks + 1)))


class Excess(NamedTuple):
    """How much longer than the others a rank worked, in ns over all steps."""

    estimate: float
    half: float  # of the width of its interval (95 %)
    lost: list[tuple[int, float]]  # the parts of own work in which time was lost, and how much in ns; largest first
    slower: float | None  # by which factor, if it took longer in all parts alike
    is_steady: bool  # step by step it took longer in one part of its work
    worked: float  # how much of the estimate was not in the queue for a core, at least
    queued: float  # how much longer it queued for a core than it would have with the others' share of queueing
    cpu: float | None  # by which factor it used more CPU time than the others, if that is most of what it lost
    blocked: float | None  # the part in which it neither was on a core nor queued for one, if that is most


def excess_of_rank(steps: Sequence[AlignedStep], rank: int, least_ns: float = 0.0) -> Excess:
    """The excess of a rank over the others. steps: of at least two ranks. A steady loss exceeds least_ns a step."""
    by_rank: dict[int, list[ByPart]] = {
        other: [step.ranks[other].work_ns for step in steps] for other in steps[0].ranks
    }
    own = by_rank.pop(rank)
    others = [_median_work(of_step) for of_step in zip(*by_rank.values(), strict=True)]
    longer = [[mine - theirs for mine, theirs in zip(*both, strict=True)] for both in zip(own, others, strict=True)]
    losses = [sum(parts) for parts in zip(*longer, strict=True)]
    typical = [sum(parts) for parts in zip(*others, strict=True)]
    scatter = _scatter(next(iter(by_rank.values())))
    halves = [
        _half_interval([by_step[part] for by_step in longer], [by_step[part] for by_step in scatter]) for part in _ALL
    ]
    leasts = [max(least_ns, STEADILY * of_part / len(steps)) for of_part in typical]
    steady = [part for part in _ALL if _is_steady([by_step[part] for by_step in longer], leasts[part])]
    worst = max(steady or _ALL, key=lambda part: losses[part])
    slower = _slower_everywhere(losses, typical)
    least = PART_OF_LOSS * sum(max(0.0, loss) for loss in losses)  # a part in which it was faster offsets no loss
    lost = [
        part
        for part in _ALL
        if part == worst or losses[part] > (0 if slower else max(least, halves[part], SYSTEMATIC * typical[part]))
    ]
    estimate = sum(losses[part] for part in lost)
    beside = any(call.awaited_ns > call.enter_ns for step in steps for call in step.ranks[rank].step.collectives)
    systematic = SYSTEMATIC_BESIDE_TRANSFERS if beside and BACKWARD in lost else SYSTEMATIC
    queued = {other: sum(step.ranks[other].step.queued_ns for step in steps) for other in steps[0].ranks}
    longer_queued = queued[rank] - _median_of_others(queued, rank)
    half = hypot(  # independent errors
        _half_interval(*([sum(by_step[part] for part in lost) for by_step in of_all] for of_all in (longer, scatter))),
        systematic * sum(typical[part] for part in lost),
        longer_queued,
        COLD * estimate,
        COLD_NS * len(steps),
    )
    by_loss = sorted(((part, losses[part]) for part in lost), key=lambda item: -item[1])
    beyond = _queued_beyond_others(steps, rank, queued)
    in_lost = [sum(by_step[part] for part in lost) for by_step in longer]
    worked = max(estimate - max(0.0, longer_queued), _lost_without_queue(steps, rank, in_lost))
    cpu = {other: sum(step.ranks[other].step.cpu_ns for step in steps) for other in steps[0].ranks}
    usual = _median_of_others(cpu, rank)
    longer_cpu = cpu[rank] - usual
    computed = usual > 0 and longer_cpu >= MOSTLY_CPU * estimate
    factor = cpu[rank] / usual if computed else None
    ready = (max(0.0, longer_cpu) + max(0.0, longer_queued)) / estimate if estimate > 0 else 1.0
    blocked = 1 - ready if min(cpu.values()) > 0 and ready <= HARDLY_CPU else None
    return Excess(estimate, half, by_loss, slower, bool(steady), worked, beyond, factor, blocked)


def _lost_without_queue(steps: Sequence[AlignedStep], rank: int, losses: Sequence[float]) -> float:
    """The loss over all steps, in ns, by the median of those in which the rank queued no longer than the others; 0 if
    these are few."""
    unqueued = []
    for step, loss in zip(steps, losses, strict=True):
        queued = {other: of_rank.step.queued_ns for other, of_rank in step.ranks.items()}
        if queued[rank] <= _median_of_others(queued, rank):
            unqueued.append(loss)
    return median(unqueued) * len(steps) if len(unqueued) >= FEWEST_UNQUEUED else 0.0


def _median_of_others(by_rank: Mapping[int, float], rank: int) -> float:
    return median(ns for other, ns in by_rank.items() if other != rank)


def _is_steady(losses: Sequence[float], least: float) -> bool:
    """Whether a rank took longer by more than the least all the time, by the median of each block but one."""
    medians = [median(block) for block in _blocks(losses)]
    return len(medians) == BLOCKS_OF_WAITS and sorted(medians)[1] > least


def _queued_beyond_others(steps: Sequence[AlignedStep], rank: int, queued: Mapping[int, int]) -> float:
    """How much longer the rank queued for a core than it would have with the others' share of queueing, in ns; 0 if its
    share is about theirs: who has more work queues longer, too."""
    wanted = {
        other: sum(sum(step.ranks[other].work_ns) - _slept(step.ranks[other]) for step in steps) for other in queued
    }
    shares = {other: ns / max(1, wanted[other]) for other, ns in queued.items()}
    usual = _median_of_others(shares, rank)
    return queued[rank] * (1 - usual / shares[rank]) if shares[rank] - usual >= QUEUES_MORE else 0.0


def _slept(step: RankStep) -> int:
    return sum(delay.end_ns - delay.begin_ns for delay in step.step.slept)


def _slower_everywhere(losses: Sequence[float], typical: Sequence[float]) -> float | None:
    """The factor by which it took longer, if that was alike in all parts."""
    whole = sum(typical)
    factors = [lost / usual for lost, usual in zip(losses, typical, strict=True) if usual > A_LARGE_PART * whole]
    slower = sum(losses) / max(whole, 1)
    return 1 + slower if len(factors) > 1 and min(factors) > IN_ALL_PARTS * slower else None


def _half_interval(losses: Sequence[float], scatter: Sequence[float]) -> float:
    """Half the width of the interval (95 %) of the sum of losses over all steps. scatter: that of another rank."""
    # A few late steps scatter by their lateness, which is no uncertainty: the other rank's scatter is taken then.
    late_in_most = median(losses) > fmean(losses) / 2
    means = [fmean(block) for block in _blocks(losses if late_in_most else scatter)]
    if len(means) < 2:
        return abs(sum(losses))
    factor = 1 if late_in_most else 2  # both ranks scatter
    return STUDENT[len(means)] * sqrt(factor * variance(means) / len(means)) * len(losses)


def _scatter(works: Sequence[ByPart]) -> list[ByPart]:
    """By how much a rank's work differs from that in the steps around, by part."""
    usual = [_median_work(works[max(0, at - AROUND) : at + AROUND + 1]) for at in range(len(works))]
    return [[own - around for own, around in zip(*both, strict=True)] for both in zip(works, usual, strict=True)]


def _median_work(works: Sequence[ByPart]) -> list[float]:
    """By part."""
    return [median(parts) for parts in zip(*works, strict=True)]
