"""Estimates how much longer a rank worked than the others before it arrived, with a confidence interval. Pure.

What the others needed is a median over them and over the neighboring steps, so that a hiccup of theirs does not make
this rank look fast. A rank loses time in some phases: those with a tenth of its loss or more. The other phases show how
fast its core was in this run, since cores of one machine differ by a tenth and more, minute by minute. At this rank's
speed, it would have needed in the lost phases what the others needed. The phase right after a loss tells nothing about
speed: its caches are cold.
"""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate, pairwise
from math import hypot, sqrt
from statistics import fmean, median
from typing import NamedTuple

from ddptui.analysis.own_work import BETWEEN, PARTS
from ddptui.analysis.waits import AlignedStep

AROUND = 4  # neighboring steps on either side
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


def excess_of_rank(steps: Sequence[AlignedStep], rank: int) -> Excess:
    """The excess of a rank over the others. steps: of at least two ranks."""
    work: list[ByPart] = [step.ranks[rank].work_ns for step in steps]
    typical, scatter = _typical_work(steps, rank)
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
    )


def _total(work: Sequence[ByPart], parts: Sequence[int]) -> float:
    return sum(of_step[part] for of_step in work for part in parts)


def _typical_work(steps: Sequence[AlignedStep], rank: int) -> tuple[list[ByPart], list[ByPart]]:
    """The other ranks' median work in each step, by part; and by how much one of them differed from it."""
    others: list[list[ByPart]] = [
        [of_rank.work_ns for other, of_rank in step.ranks.items() if other != rank] for step in steps
    ]
    typical: list[ByPart] = []
    for at in range(len(steps)):
        near = [work for step in others[max(0, at - AROUND) : at + AROUND + 1] for work in step]
        typical.append([median(work[part] for work in near) for part in _ALL])
    return typical, [
        [of_step[0][part] - usual[part] for part in _ALL] for of_step, usual in zip(others, typical, strict=True)
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
    # By batch means, since neighboring steps are alike (Law, «Simulation Modeling and Analysis», 9.5.3).
    ends = [round(number * len(by_step) / BATCHES) for number in range(BATCHES + 1)]
    means = [fmean(by_step[begin:end]) for begin, end in pairwise(ends)]
    # From one batch to the next, since a delay that comes or goes is no scatter (von Neumann et al., «The Mean Square
    # Successive Difference», 1941).
    variance = fmean((after - before) ** 2 for before, after in pairwise(means)) / 2
    return STUDENT * sqrt(variance * 2 / len(means)) * len(by_step)
