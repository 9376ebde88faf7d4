"""Estimates how much longer a rank worked than the others before it arrived, with a confidence interval. Pure.

A rank that is ready to go on but has no core does not work: what the scheduler kept it waiting is taken off first. What
the others needed is their median in the same step, since some steps do more than others: one in three may hash the
model. Where it is a hiccup, which must not make this rank look fast, the longest of the neighboring steps counts. A
rank loses time in some phases: those with a tenth of its loss or more. The other phases show how fast its core was in
this run, since cores of one machine differ by a tenth and more, minute by minute. At this rank's speed, it would have
needed in the lost phases what the others needed. The phase right after a loss tells nothing about speed: its caches are
cold.
"""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate, pairwise
from math import hypot, sqrt
from statistics import fmean, median
from typing import NamedTuple

from ddptui.analysis.own_work import BETWEEN
from ddptui.analysis.waits import AlignedStep, RankStep
from ddptui.wire.messages import Step
from ddptui.wire.phases import PARTS

PAUSE_NS = 250e6  # no pause of the scheduler was seen to be longer
AROUND = 4  # neighboring steps on either side
HICCUP = 2  # × the longest of the neighboring steps
PART_OF_LOSS = 0.1  # a phase with a smaller part of the loss is not among the lost ones
MOST_APART = 1.15  # a factor: cores of one machine differ by less; more has other reasons, too
BATCHES = 10  # of steps, for the error by batch means
STUDENT = 2.26  # t, 95 %, for the nine degrees of freedom of ten batches
RESIDUAL = 0.04  # of the work in a phase
COLD = 0.003  # of a delay: what follows runs slower at first, with cold caches
COLD_NS = 25_000  # per step: the same after a short delay

ByPart = Sequence[float]  # own work in ns, in the order of PARTS
_ALL = range(len(PARTS))


class Excess(NamedTuple):
    """How much longer than the others a rank worked, in ns over all steps."""

    estimate: float
    low: float
    high: float
    lost: list[tuple[int, float]]  # the parts of own work in which time was lost, and how much in ns; largest first
    slower: float  # the rank's time over the others' in the other parts; 1: as fast
    everywhere: bool  # this factor explains the excess: the rank was slower in all that it did
    worst: tuple[int, float]  # the number of the step that lost most, and how much in ns
    burst: float  # the most that it lost in PAUSE_NS, or in one step


def excess_of_rank(steps: Sequence[AlignedStep], rank: int) -> Excess:
    """The excess of a rank over the others. steps: of at least two ranks."""
    by_rank = {rank: _on_core([step.ranks[rank] for step in steps]) for rank in steps[0].ranks}
    work = by_rank.pop(rank)
    typical, scatter = _typical_work([*by_rank.values()])
    longer = [sum(mine[part] - theirs[part] for mine, theirs in zip(work, typical, strict=True)) for part in _ALL]
    gained = sum(max(0.0, loss) for loss in longer)  # a phase in which it was faster offsets no loss
    lost = [part for part in _ALL if longer[part] > PART_OF_LOSS * gained]
    slower = _slowdown(work, typical, lost, steps)
    plain = sum(longer[part] for part in lost)
    typical_ns = _total(typical, lost)
    # If general slowness explains more than half of the loss, no single phase is to blame.
    everywhere = plain - (slower - 1) * typical_ns < plain / 2
    plausible = 1 / MOST_APART < slower < MOST_APART
    # Beyond what cores differ by, the factor has other reasons, and corrects no further.
    corrected = plain - (min(max(slower, 1 / MOST_APART), MOST_APART) - 1) * typical_ns
    if everywhere:
        lost = [part for part in _ALL if longer[part] > 0]
    estimate = sum(longer) if everywhere else corrected
    losses = [sum(mine[part] - theirs[part] for part in lost) for mine, theirs in zip(work, typical, strict=True)]
    # A few late steps scatter by their lateness, which is no uncertainty: the others' scatter is taken then.
    late_in_most = median(losses) > fmean(losses) / 2
    half = hypot(  # independent errors: the steps' scatter, the correction by speed, and a residual
        _half_interval(losses if late_in_most else [sum(parts[part] for part in lost) for parts in scatter]),
        # One factor for all phases is a rough guess: half of the correction, or all of it beyond what cores differ by.
        0.0 if everywhere else (plain - corrected) / (2 if plausible else 1),
        # By so much, phases and delays differed without any cause on the machine that this was built on.
        RESIDUAL * _total(typical, lost),
        COLD * estimate,
        COLD_NS * len(steps),
    )
    worst = max(range(len(steps)), key=lambda at: losses[at])
    return Excess(
        estimate=estimate,
        low=estimate - half,
        high=estimate + half,
        lost=sorted(((part, longer[part]) for part in lost), key=lambda item: -item[1]),
        slower=slower,
        everywhere=everywhere,
        worst=(steps[worst].number, losses[worst]),
        burst=_burst([step.ranks[rank].step for step in steps], losses),
    )


def _burst(steps: Sequence[Step], losses: Sequence[float]) -> float:
    """The largest loss of neighboring steps that took no longer than PAUSE_NS together, or of a single one."""
    most = lost = 0.0
    first = 0
    for at, step in enumerate(steps):
        lost += losses[at]
        while first < at and step.end_ns - steps[first].begin_ns > PAUSE_NS:
            lost -= losses[first]
            first += 1
        most = max(most, lost)
    return most


def _total(work: Sequence[ByPart], parts: Sequence[int]) -> float:
    return sum(of_step[part] for of_step in work for part in parts)


def _on_core(steps: Sequence[RankStep]) -> list[ByPart]:
    """A rank's own work in each step without what it stood in the scheduler's queue, by part."""
    works: list[ByPart] = [step.work_ns for step in steps]
    return [
        _shortened(step.work_ns, _median_work(_around(works, at)), step.step.queued_ns) if step.step.queued_ns else work
        for at, (step, work) in enumerate(zip(steps, works, strict=True))
    ]


def _shortened(work: ByPart, usual: ByPart, by_ns: float) -> ByPart:
    """The work of a step less a time that is in some of its parts: in those that exceed the usual most."""
    work = list(work)
    for part in sorted(_ALL, key=lambda part: usual[part] - work[part]):
        taken = min(by_ns, max(0.0, work[part] - usual[part]))
        work[part] -= taken
        by_ns -= taken
    return work


def _around(works: Sequence[ByPart], at: int) -> Sequence[ByPart]:
    """A step and its neighbors."""
    return works[max(0, at - AROUND) : at + AROUND + 1]


def _median_work(works: Sequence[ByPart]) -> list[float]:
    """By part."""
    return [median(parts) for parts in zip(*works, strict=True)]


def _typical_work(others: Sequence[Sequence[ByPart]]) -> tuple[list[ByPart], list[ByPart]]:
    """The other ranks' median work in each step, by part; and by how much one of them differed from it. others: by rank
    and step."""
    medians: list[ByPart] = [_median_work(of_step) for of_step in zip(*others, strict=True)]
    typical: list[ByPart] = []
    for at, here in enumerate(medians):
        near = [*medians[max(0, at - AROUND) : at], *medians[at + 1 : at + AROUND + 1]] or [here]
        longest = [max(parts) for parts in zip(*near, strict=True)]
        typical.append([most if part > HICCUP * most else part for part, most in zip(here, longest, strict=True)])
    usual = [_median_work(_around(medians, at)) for at in range(len(medians))]
    return typical, [
        [of_step[part] - around[part] for part in _ALL] for of_step, around in zip(others[0], usual, strict=True)
    ]


def _slowdown(
    work: Sequence[ByPart], typical: Sequence[ByPart], lost: Sequence[int], steps: Sequence[AlignedStep]
) -> float:
    """The rank's time over the others' in the phases where it lost none."""
    order = [*next(iter(steps[0].ranks.values())).step.order, BETWEEN]
    after_loss = {follower for part, follower in pairwise([*order, order[0]]) if part in lost}
    witnesses = [part for part in order if part not in lost and part not in after_loss]
    ratios: list[tuple[float, float]] = []
    for part in witnesses or order:  # without any witness, the rank was slower in all that it did
        mine, theirs = median(of_step[part] for of_step in work), median(of_step[part] for of_step in typical)
        if mine and theirs:
            ratios.append((mine / theirs, min(mine, theirs)))
    if not ratios:
        return 1.0
    ratios.sort()  # the median weighted by the phases' lengths, since another rank may lose time in one of them
    up_to = list(accumulate(weight for _, weight in ratios))
    return ratios[bisect_left(up_to, up_to[-1] / 2)][0]


def _half_interval(by_step: Sequence[float]) -> float:
    """Half the width of the interval (95 %) of the difference of two such sums over all steps."""
    # By batch means, since neighboring steps are alike (Law, "Simulation Modeling and Analysis", 9.5.3).
    ends = [round(number * len(by_step) / BATCHES) for number in range(BATCHES + 1)]
    means = [fmean(by_step[begin:end]) for begin, end in pairwise(ends)]
    # From one batch to the next, since a delay that comes or goes is no scatter (von Neumann et al., "The Mean Square
    # Successive Difference", 1941).
    variance = fmean((after - before) ** 2 for before, after in pairwise(means)) / 2
    return STUDENT * sqrt(variance * 2 / len(means)) * len(by_step)
