"""How much longer a rank worked than the others before it arrived, and how sure that is. Pure.

What the others needed is a median over them and over the neighbouring steps, so that a hiccup of theirs does not count
as this rank's haste. A rank loses time in some phases, each with a tenth of its loss or more. The other phases show how
fast its core was in this run: cores of one machine differ by a tenth and more, minute by minute. What the others needed
in the lost phases, at this rank's own speed, is what it would have needed itself. The phase right after a loss is no
witness of speed: the caches are cold there.

The interval (95 %) has three parts. What steps scatter: by batch means, since neighbouring steps are alike (Law,
«Simulation Modeling and Analysis», 9.5.3), and from one batch to the next, since a delay that comes or goes is no
scatter (von Neumann et al., «The Mean Square Successive Difference», 1941); of the rank itself if it is late in most
steps, of the others if it is late in a few. Half of what the speed is worth, since one number for all phases is a rough
guess (all of it, where the witnesses say what cores do not differ by). And what phases and delays were seen to differ
by for no reason on the machine that this was built on (FOR_NO_REASON, COLD, COLD_NS).
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from math import hypot, sqrt
from statistics import fmean, median
from typing import NamedTuple

from ddptui.analysis.own_work import BETWEEN, PARTS
from ddptui.analysis.waits import AlignedStep

AROUND = 4  # neighbouring steps on either side
PART_OF_LOSS = 0.1
MOST_APART = 1.15  # cores of one machine; a witness that says more has other reasons, too
BATCHES = 10
STUDENT = 2.26  # t, 95 %, for the nine degrees of freedom of ten batches
FOR_NO_REASON = 0.04  # of the work in a phase
COLD = 0.003  # of a delay: what follows it runs slower at first;
COLD_NS = 25_000  # a step, if it is short

ByPart = Sequence[float]  # ns of own work


class Excess(NamedTuple):
    """estimate, low and high in ns, of all steps together; by part what was lost there, largest first; how much slower
    than the others the rank was in the rest (1: as fast), and whether that is all there is: it was slower everywhere;
    worst: the number of the step that lost most, and how much, ns."""

    estimate: float
    low: float
    high: float
    lost: list[tuple[int, float]]
    slower: float
    everywhere: bool
    worst: tuple[int, float]


def excess_of_rank(steps: Sequence[AlignedStep], rank: int) -> Excess:
    """Of one rank, against the others."""
    own: list[ByPart] = [step.ranks[rank].work_ns for step in steps]
    others, scatter = _typical_work(steps, rank)
    longer = [sum(mine[part] - theirs[part] for mine, theirs in zip(own, others, strict=True)) for part in _ALL]
    gained = sum(max(0.0, loss) for loss in longer)
    lost = [part for part in _ALL if longer[part] > PART_OF_LOSS * gained]
    slower = _slowdown(own, others, lost, steps)
    plain = sum(longer[part] for part in lost)
    work = sum(theirs[part] for theirs in others for part in lost)
    everywhere = plain - (slower - 1) * work < plain / 2
    believed = 1 / MOST_APART < slower < MOST_APART
    corrected = plain - (min(max(slower, 1 / MOST_APART), MOST_APART) - 1) * work
    if everywhere:
        lost = [part for part in _ALL if longer[part] > 0]
    estimate = sum(longer) if everywhere else corrected
    losses = [sum(mine[part] - theirs[part] for part in lost) for mine, theirs in zip(own, others, strict=True)]
    work = sum(theirs[part] for theirs in others for part in lost)  # more of them, perhaps
    doubts = (
        _half_interval(
            losses if median(losses) > fmean(losses) / 2 else [sum(each[part] for part in lost) for each in scatter]
        ),
        0.0 if everywhere else (plain - corrected) / (2 if believed else 1),
        FOR_NO_REASON * work,
        COLD * estimate,
        COLD_NS * len(steps),
    )
    half = hypot(*doubts)
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


_ALL = range(len(PARTS))


def _typical_work(steps: Sequence[AlignedStep], rank: int) -> tuple[list[ByPart], list[ByPart]]:
    """What the others worked, step by step and part by part; and how far one of them was from that."""
    peers: list[list[ByPart]] = [[own.work_ns for other, own in step.ranks.items() if other != rank] for step in steps]
    typical: list[ByPart] = []
    for here in range(len(steps)):
        near = [work for step in peers[max(0, here - AROUND) : here + AROUND + 1] for work in step]
        typical.append([median(work[part] for work in near) for part in _ALL])
    return typical, [
        [of_step[0][part] - usual[part] for part in _ALL] for of_step, usual in zip(peers, typical, strict=True)
    ]


def _slowdown(
    own: Sequence[ByPart], others: Sequence[ByPart], lost: Sequence[int], steps: Sequence[AlignedStep]
) -> float:
    """The rank's time over the others', where nothing was lost: the median of the phases, by weight, since in one of
    them another rank may lose time."""
    order = [*next(iter(steps[0].ranks.values())).step.order, BETWEEN]
    after = {follower for part, follower in pairwise([*order, order[0]]) if part in lost}
    witnesses = [part for part in order if part not in lost and part not in after]
    parts = witnesses or order  # without a witness, it was slower in all it did
    ratios: list[tuple[float, float]] = []
    for part in parts:
        mine, theirs = median(work[part] for work in own), median(work[part] for work in others)
        if mine and theirs:
            ratios.append((mine / theirs, min(mine, theirs)))
    return _weighted_median(ratios) if ratios else 1.0


def _weighted_median(values: Sequence[tuple[float, float]]) -> float:
    """Of values with weights."""
    ordered = sorted(values)
    up_to = list(accumulate(weight for _, weight in ordered))
    return ordered[bisect_left(up_to, up_to[-1] / 2)][0]


def _half_interval(by_step: Sequence[float]) -> float:
    """Half the interval of a difference of two such sums over all steps."""
    means = [fmean(batch) for batch in _batches(by_step)]
    variance = fmean((after - before) ** 2 for before, after in pairwise(means)) / 2
    return STUDENT * sqrt(variance * 2 / len(means)) * len(by_step)


def _batches(values: Sequence[float]) -> Iterator[Sequence[float]]:
    ends = [round(number * len(values) / BATCHES) for number in range(BATCHES + 1)]
    for begin, end in pairwise(ends):
        yield values[begin:end]
