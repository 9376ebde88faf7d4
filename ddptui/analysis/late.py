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

from math import hypot, sqrt
from random import Random
from typing import NamedTuple

import numpy as np

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
from ddptui.analysis.window import Array, Window
from ddptui.wire.phases import PARTS

AROUND = 4  # neighboring steps on either side
# Student's t, 95 %, for one degree of freedom less than there are blocks.
STUDENT = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36, 9: 2.31, 10: 2.26, 11: 2.23, 12: 2.20}
BACKWARD = PARTS.index("backward")


def chance_of_waits(caused: Array, least_ns: float) -> float:
    """How often one of the ranks would cause so much of the waiting by chance, were all alike. caused: steps × ranks.
    least_ns: a step; who causes less in most blocks does so since cores differ a little, and that does not count."""
    blocks = np.array([block.mean(axis=0) for block in _blocks(caused)])
    usual = np.median(blocks, axis=0)
    little = np.where(usual >= least_ns, least_ns / 2, np.maximum(least_ns / 2, usual))
    by_block = np.maximum(0.0, blocks - little).tolist()
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


def _blocks(steps: Array) -> list[Array]:
    """Neighboring steps together, about as many each time."""
    blocks = min(BLOCKS_OF_WAITS, len(steps))
    return np.split(steps, [at * len(steps) // blocks for at in range(1, blocks)])


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


def excess_of_rank(window: Window, rank: int, least_ns: float = 0.0) -> Excess:
    """The excess of a rank over the others, of which there is one at least. A steady loss exceeds least_ns a step."""
    at, steps = window.ranks.index(rank), len(window.steps)
    others = np.delete(window.work, at, axis=1)
    usual = np.median(others, axis=1)  # steps × parts
    longer = window.work[:, at] - usual
    losses, typical, scatter = longer.sum(axis=0), usual.sum(axis=0), _scatter(others[:, 0])
    halves = np.array([_half_interval(longer[:, part], scatter[:, part]) for part in range(len(PARTS))])
    steady = [
        part
        for part in range(len(PARTS))
        if _is_steady(longer[:, part], max(least_ns, STEADILY * typical[part] / steps))
    ]
    worst = max(steady or range(len(PARTS)), key=lambda part: losses[part])
    slower = _slower_everywhere(losses, typical)
    least = PART_OF_LOSS * np.maximum(0.0, losses).sum()  # a part in which it was faster offsets no loss
    limits = np.zeros(len(PARTS)) if slower else np.maximum(least, np.maximum(halves, SYSTEMATIC * typical))
    lost = [part for part in range(len(PARTS)) if part == worst or losses[part] > limits[part]]
    estimate, in_lost = float(losses[lost].sum()), longer[:, lost].sum(axis=1)
    calls = [call for step in window.steps for call in step.ranks[rank].step.collectives]
    beside = any(call.awaited_ns > call.enter_ns for call in calls) and BACKWARD in lost
    longer_queued = _beyond_others(window.queued.sum(axis=0), at)
    half = hypot(  # independent errors
        _half_interval(in_lost, scatter[:, lost].sum(axis=1)),
        (SYSTEMATIC_BESIDE_TRANSFERS if beside else SYSTEMATIC) * typical[lost].sum(),
        longer_queued,
        COLD * estimate,
        COLD_NS * steps,
    )
    worked = max(estimate - max(0.0, longer_queued), _lost_without_queue(window, at, in_lost))
    cpu = window.cpu.sum(axis=0)
    longer_cpu = _beyond_others(cpu, at)
    factor = float(cpu[at] / (cpu[at] - longer_cpu)) if cpu[at] > longer_cpu >= MOSTLY_CPU * estimate else None
    ready = (max(0.0, longer_cpu) + max(0.0, longer_queued)) / estimate if estimate > 0 else 1.0
    return Excess(
        estimate=estimate,
        half=half,
        lost=sorted(((part, float(losses[part])) for part in lost), key=lambda item: -item[1]),
        slower=slower,
        is_steady=bool(steady),
        worked=worked,
        queued=_queued_beyond_others(window, at),
        cpu=factor,
        blocked=1 - ready if cpu.min() > 0 and ready <= HARDLY_CPU else None,
    )


def _beyond_others(by_rank: Array, at: int) -> float:
    """By how much a rank's figure exceeds the median of the others'."""
    return float(by_rank[at] - np.median(np.delete(by_rank, at)))


def _lost_without_queue(window: Window, at: int, losses: Array) -> float:
    """The loss over all steps, in ns, by the median of those in which the rank queued no longer than the others; 0 if
    these are few."""
    queued = window.queued
    unqueued = losses[queued[:, at] <= np.median(np.delete(queued, at, axis=1), axis=1)]
    return float(np.median(unqueued)) * len(losses) if len(unqueued) >= FEWEST_UNQUEUED else 0.0


def _is_steady(losses: Array, least: float) -> bool:
    """Whether a rank took longer by more than the least all the time, by the median of each block but one."""
    medians = sorted(float(np.median(block)) for block in _blocks(losses))
    return len(medians) == BLOCKS_OF_WAITS and medians[1] > least


def _queued_beyond_others(window: Window, at: int) -> float:
    """How much longer the rank queued for a core than it would have with the others' share of queueing, in ns; 0 if its
    share is about theirs: who has more work queues longer, too."""
    slept = [
        [sum(delay.end_ns - delay.begin_ns for delay in step.ranks[rank].step.slept) for rank in window.ranks]
        for step in window.steps
    ]
    queued = window.queued.sum(axis=0)
    shares = queued / np.maximum(1, window.work.sum(axis=(0, 2)) - np.sum(slept, axis=0))
    more = _beyond_others(shares, at)
    return float(queued[at] * more / shares[at]) if more >= QUEUES_MORE else 0.0


def _slower_everywhere(losses: Array, typical: Array) -> float | None:
    """The factor by which it took longer, if that was alike in all parts."""
    large = typical > A_LARGE_PART * typical.sum()
    slower = float(losses.sum() / max(typical.sum(), 1))
    return 1 + slower if large.sum() > 1 and (losses[large] / typical[large]).min() > IN_ALL_PARTS * slower else None


def _half_interval(losses: Array, scatter: Array) -> float:
    """Half the width of the interval (95 %) of the sum of losses over all steps. scatter: that of another rank."""
    # A few late steps scatter by their lateness, which is no uncertainty: the other rank's scatter is taken then.
    late_in_most = np.median(losses) > losses.mean() / 2
    means = [block.mean() for block in _blocks(losses if late_in_most else scatter)]
    if len(means) < 2:
        return abs(float(losses.sum()))
    factor = 1 if late_in_most else 2  # both ranks scatter
    return STUDENT[len(means)] * sqrt(factor * np.var(means, ddof=1) / len(means)) * len(losses)


def _scatter(works: Array) -> Array:
    """By how much a rank's work differs from that in the steps around; steps × parts."""
    around = [np.median(works[max(0, at - AROUND) : at + AROUND + 1], axis=0) for at in range(len(works))]
    return works - np.array(around)
