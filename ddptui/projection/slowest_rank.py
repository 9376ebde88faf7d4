"""How long the slowest of many ranks takes, by what a few were seen to take. Pure.

A rank's steps are a sample. Below its threshold, which a tenth of the sample exceeds, chance is what was seen. Beyond,
where N ranks look for their slowest and a sample has little or nothing, excesses follow a generalised Pareto law: that
is the limit for nearly every law, as the threshold rises (Balkema and de Haan, "Residual life time at great age", 1974;
Pickands, "Statistical inference using extreme order statistics", 1975). Its scale is a rank's own; its shape is taken
from all ranks' excesses together, by probability-weighted moments (Hosking and Wallis, "Parameter and quantile
estimation for the generalized Pareto distribution", 1987). It is 0, an exponential tail, unless the sample contradicts
that by two standard errors: a few excesses alone would give any shape, and with it any slowest of thousands.

That one rank is slower than another in all steps is no chance. Ranks keep their own laws for this: of N ranks, as many
are like each of the measured ones as like any other, and where N does not divide evenly, any of them may be there once
more. So on as many ranks as were measured it is just these, and with one slow rank of four, a quarter of all is slow.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import pairwise
from math import comb, exp, log, prod, sqrt
from statistics import fmean
from typing import NamedTuple

EXCEED = 0.1  # of a sample, the threshold is exceeded by
FEWEST = 10  # excesses that make a tail, if half of the sample are so many
HEAVIEST = 0.5  # from there on a law has no variance, and no sample shows its mean
CONTRADICTS = 2.0  # standard errors
VARIANCE_OF_SHAPE = 4 / 3  # times 1/k for k excesses, where the shape is 0 (Hosking and Wallis, 1987)
BULK, TAIL_A_DECADE, DECADES = 200, 12, 9  # points that an integral is made of
MOST_KINDS = 16  # of ranks


class Tail(NamedTuple):
    """Beyond the threshold, which `exceed` of the sample exceed."""

    threshold: float
    exceed: float
    scale: float
    shape: float


class Slowest(NamedTuple):
    """Points in time, and for each kind of rank the chance to be done before each, and by then: they differ where a
    step took just so long."""

    points: tuple[float, ...]
    before: tuple[tuple[float, ...], ...]
    by: tuple[tuple[float, ...], ...]


def slowest(ranks: Sequence[Sequence[float]]) -> Slowest:
    """What the slowest of any number of ranks is worked out from: by rank, how long it took, step by step."""
    samples = [sorted(own) for own in _kinds(ranks)]
    tails = _tails(samples)
    points = _points(samples, tails)
    laws = list(zip(samples, tails, strict=True))
    before = tuple(tuple(_done(bisect_left, own, tail, at) for own, tail in laws) for at in points)
    by = tuple(tuple(_done(bisect_right, own, tail, at) for own, tail in laws) for at in points)
    return Slowest(points, before, by)


def expected(law: Slowest, ranks: int) -> float:
    """Of the slowest of so many: from the least on, the integral of the chance that it still goes on."""
    after = [1 - _all_done(chances, ranks) for chances in law.by[:-1]]
    until = [1 - _all_done(chances, ranks) for chances in law.before[1:]]
    parts = zip(pairwise(law.points), after, until, strict=True)
    return law.points[0] + sum((right - left) * (one + other) / 2 for (left, right), one, other in parts)


def _all_done(chances: Sequence[float], ranks: int) -> float:
    """Of so many ranks: each kind as often as it goes, and a choice of kinds, any of the same size, once more."""
    times, more = divmod(ranks, len(chances))
    return prod(chances) ** times * _any_choice(chances, more)


def _any_choice(chances: Sequence[float], size: int) -> float:
    """The mean over all choices of so many of the product of their chances: by adding one kind after another."""
    sums = [1.0] + [0.0] * size
    for chance in chances:
        for chosen in range(size, 0, -1):
            sums[chosen] += chance * sums[chosen - 1]
    return sums[size] / comb(len(chances), size)


def _kinds(ranks: Sequence[Sequence[float]]) -> list[Sequence[float]]:
    """The ranks; of many, those that take about as long on average are of one kind."""
    if len(ranks) <= MOST_KINDS:
        return list(ranks)
    ordered = sorted(ranks, key=fmean)
    ends = [at * len(ordered) // MOST_KINDS for at in range(MOST_KINDS + 1)]
    return [[value for own in ordered[begin:end] for value in own] for begin, end in pairwise(ends)]


def shape_of(excesses: Sequence[float]) -> float:
    """Of a generalised Pareto law: below 0 it has an end, above 0 it has a heavier tail than an exponential one."""
    ordered, count = sorted(excesses), len(excesses)
    mean = fmean(ordered)
    weighted = fmean((count - at) / (count - 1) * value for at, value in enumerate(ordered, start=1))
    if count < FEWEST or mean <= 2 * weighted:
        return 0.0
    shape = 2 - mean / (mean - 2 * weighted)
    if abs(shape) < CONTRADICTS * sqrt(VARIANCE_OF_SHAPE / count):
        return 0.0
    return min(max(shape, -1.0), HEAVIEST)


def _tails(samples: Sequence[Sequence[float]]) -> list[Tail]:
    """The shape is that of all ranks' excesses, each in units of its rank's mean."""
    cuts = [len(own) - min(max(round(EXCEED * len(own)), FEWEST), max(1, len(own) // 2)) for own in samples]
    thresholds = [own[max(0, cut - 1)] for own, cut in zip(samples, cuts, strict=True)]
    excesses = [
        [value - threshold for value in own[cut:]]
        for own, cut, threshold in zip(samples, cuts, thresholds, strict=True)
    ]
    means = [fmean(beyond) if beyond else 0.0 for beyond in excesses]
    together = [value / mean for beyond, mean in zip(excesses, means, strict=True) if mean > 0 for value in beyond]
    shape = shape_of(together) if len(together) > 1 else 0.0
    return [
        Tail(threshold, len(beyond) / len(own), mean * (1 - shape), shape)
        for own, threshold, beyond, mean in zip(samples, thresholds, excesses, means, strict=True)
    ]


def _done(count: Callable[[Sequence[float], float], int], own: Sequence[float], tail: Tail, at: float) -> float:
    """The chance that a rank is done by then. count: how many of the sample are below, or up to there."""
    if at <= tail.threshold:
        return count(own, at) / len(own)
    return 1 - tail.exceed * _survival(tail, at - tail.threshold)


def _survival(tail: Tail, excess: float) -> float:
    """The chance that an excess is larger, once there is one."""
    if tail.scale <= 0:
        return 0.0
    if tail.shape == 0:
        return exp(-excess / tail.scale)
    left = 1 + tail.shape * excess / tail.scale
    return float(left ** (-1 / tail.shape)) if left > 0 else 0.0


def _excess(tail: Tail, survival: float) -> float:
    """The inverse."""
    if tail.shape == 0:
        return -tail.scale * log(survival)
    return tail.scale * float(survival**-tail.shape - 1) / tail.shape


def _points(samples: Sequence[Sequence[float]], tails: Sequence[Tail]) -> tuple[float, ...]:
    """Close together where the sample is, and then evenly in the logarithm of the chance that a step takes longer."""
    bulk = sorted(value for own, tail in zip(samples, tails, strict=True) for value in own if value <= tail.threshold)
    every = max(1, len(bulk) // BULK)
    beyond = [
        max(tail.threshold + _excess(tail, 10 ** (-step / TAIL_A_DECADE)) for tail in tails)
        for step in range(TAIL_A_DECADE * DECADES + 1)
    ]
    return tuple(sorted({*bulk[::every], bulk[-1], *beyond}))
