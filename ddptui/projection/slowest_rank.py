"""How long ranks work, how they differ, and how long the slowest of many takes. Pure.

A rank's steps are a sample. Up to its threshold, which a tenth of the sample exceeds, its law is the sample itself.
Beyond, where N ranks look for their slowest and a sample has little or nothing, excesses follow a generalized Pareto
law: that is the limit for nearly every law, as the threshold rises (Balkema and de Haan, "Residual life time at great
age", 1974; Pickands, "Statistical inference using extreme order statistics", 1975). Its scale is a rank's own. Its
shape comes from all ranks' excesses together, by probability-weighted moments (Hosking and Wallis, "Parameter and
quantile estimation for the generalized Pareto distribution", 1987).

That one rank is slower than another in all steps is not chance. So ranks keep their own laws: of N ranks, as many
follow each measured rank's law as any other's. Where N does not divide evenly, any of the laws may occur once more. On
as many ranks as were measured these are exactly the measured ones; with one slow rank of four, a quarter is slow.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise
from math import comb, exp, log, prod, sqrt
from statistics import fmean
from typing import NamedTuple

from ddptui.projection.measured import MeasuredTrial, StepChoice, Work

EXCEED = 0.1  # part of a sample beyond its threshold
FEWEST = 10  # excesses that make a tail, if half of the sample are so many
HEAVIEST = 0.5  # with this shape or above a law has no variance, and no sample shows its mean
CONTRADICTS = 2.0  # standard errors
VARIANCE_OF_SHAPE = 4 / 3  # times 1/k for k excesses, where the shape is 0 (Hosking and Wallis, 1987)
BULK, TAIL_PER_DECADE, DECADES = 200, 12, 9  # points of the integral: below the threshold; beyond it, by probability
MOST_KINDS = 16  # laws: the integral's cost grows with their number


class Scale(NamedTuple):
    """A rank's batch, and the time its computing takes, relative to the measured ones."""

    batch: float = 1.0
    compute: float = 1.0


def work_times(measured: MeasuredTrial, scale: Scale) -> list[list[list[float]]]:
    """Own work in s, by launch, rank and step, without the difference between a launch's mean and the others'."""

    def seconds(work: Work) -> float:
        computed = work.batch * scale.batch + work.rest
        return computed * scale.compute + work.batch_slept * scale.batch + work.rest_slept

    times = [
        [[seconds(work) for work in rank] for rank in zip(*(step.work for step in launch), strict=True)]
        for launch in measured.launches
    ]
    # What launches differ by is common to all ranks of a launch: no rank waits for it, so it is taken out.
    means = [fmean(map(fmean, ranks)) for ranks in times]
    usual = fmean(means)
    return [[[s - mean + usual for s in rank] for rank in ranks] for ranks, mean in zip(times, means, strict=True)]


def pooled(times: Sequence[Sequence[Sequence[float]]], choice: StepChoice) -> list[list[float]]:
    """The chosen steps of all launches, by rank. times: by launch, rank and step."""
    ranks = range(len(times[0]))
    return [[launch[rank][at] for launch, chosen in zip(times, choice, strict=True) for at in chosen] for rank in ranks]


def work_by_rank(measured: MeasuredTrial) -> list[list[float]]:
    """Own work as measured, s, by rank and step of all launches."""
    return pooled(work_times(measured, Scale()), measured.every_step)


class RankSpread(NamedTuple):
    """How the measured ranks differ."""

    slowest: int  # the rank whose own work took longest on average
    excess_s: float  # by how much, against the mean of all
    uncertainty: float  # standard error of excess_s
    correlation: float  # of two ranks' work, step by step
    steps: int


def rank_spread(measured: MeasuredTrial) -> RankSpread:
    """Which rank is slower throughout, and whether ranks are slow in the same steps."""
    samples = work_by_rank(measured)
    means = [fmean(sample) for sample in samples]
    slowest = max(range(len(means)), key=lambda rank: means[rank])
    variances = [_variance(sample) for sample in samples]
    of_means = _variance([fmean(step) for step in zip(*samples, strict=True)])
    count, within = len(samples), fmean(variances)
    # The variance of a mean of n equally correlated values is (1 + (n - 1) correlation) / n of theirs.
    correlation = (count * of_means / within - 1) / (count - 1) if within else 0.0
    uncertainty = (variances[slowest] / len(samples[slowest])) ** 0.5
    return RankSpread(slowest, means[slowest] - fmean(means), uncertainty, correlation, len(samples[0]))


def _variance(values: Sequence[float]) -> float:
    mean = fmean(values)
    return fmean((value - mean) ** 2 for value in values)


class Tail(NamedTuple):
    """The generalized Pareto law beyond the threshold."""

    threshold: float
    exceed: float  # the part of the sample beyond it
    scale: float
    shape: float


class Done(NamedTuple):
    """The probabilities to be done, by point in time."""

    by_kind: tuple[tuple[float, ...], ...]  # of a rank of each kind
    all_kinds: tuple[float, ...]  # of one rank of each kind together


class Slowest(NamedTuple):
    """The probabilities to be done before each point in time, and by it."""

    points: tuple[float, ...]
    before: Done
    by: Done  # differs from `before` where a step took exactly so long


def slowest(ranks: Sequence[Sequence[float]]) -> Slowest:
    """The laws from which `expected_slowest` integrates. ranks: for each measured rank, its work by step, s."""
    samples = [sorted(sample) for sample in _kinds(ranks)]
    tails = _tails(samples)
    points = _points(samples, tails)
    before, by = zip(*(_done(sample, tail, points) for sample, tail in zip(samples, tails, strict=True)), strict=True)
    return Slowest(points, _together(before), _together(by))


def expected_slowest(law: Slowest, ranks: int) -> float:
    """Mean time of the slowest of so many ranks, s."""
    # From the first point on, the integral of the probability that not all are done, taken as linear between points.
    after, until = _not_all_done(law.by, ranks)[:-1], _not_all_done(law.before, ranks)[1:]
    parts = zip(pairwise(law.points), after, until, strict=True)
    return law.points[0] + sum([(right - left) * (one + other) / 2 for (left, right), one, other in parts])


def _together(by_kind: tuple[tuple[float, ...], ...]) -> Done:
    return Done(by_kind, tuple(map(prod, zip(*by_kind, strict=True))))


def _not_all_done(done: Done, ranks: int) -> list[float]:
    """By point: each kind occurs equally often, and any choice of kinds once more."""
    times, more = divmod(ranks, len(done.by_kind))
    if more == 0:
        return [1 - chance**times for chance in done.all_kinds]
    once_more = (_any_choice(chances, more) for chances in zip(*done.by_kind, strict=True))
    return [1 - chance**times * other for chance, other in zip(done.all_kinds, once_more, strict=True)]


def _any_choice(chances: Sequence[float], size: int) -> float:
    """The mean, over all choices of so many kinds, of the product of their chances."""
    sums = [1.0] + [0.0] * size  # by size, of these products
    for chance in chances:
        for chosen in range(size, 0, -1):  # downwards, so that no kind is chosen twice
            sums[chosen] += chance * sums[chosen - 1]
    return sums[size] / comb(len(chances), size)


def _kinds(ranks: Sequence[Sequence[float]]) -> list[Sequence[float]]:
    """The ranks' samples; of many ranks, those with about the same mean are put together."""
    if len(ranks) <= MOST_KINDS:
        return list(ranks)
    ordered = sorted(ranks, key=fmean)
    ends = [at * len(ordered) // MOST_KINDS for at in range(MOST_KINDS + 1)]
    return [[value for sample in ordered[begin:end] for value in sample] for begin, end in pairwise(ends)]


def shape_of(excesses: Sequence[float]) -> float:
    """The shape of a generalized Pareto law: below 0 it has an end, above 0 its tail is heavier than exponential."""
    ordered, count = sorted(excesses), len(excesses)
    mean = fmean(ordered)
    weighted = fmean((count - at) / (count - 1) * value for at, value in enumerate(ordered, start=1))
    if count < FEWEST or mean <= 2 * weighted:
        return 0.0
    shape = 2 - mean / (mean - 2 * weighted)
    # Exponential unless the sample contradicts it: a few excesses alone would give any shape, and with it any slowest
    # of thousands.
    if abs(shape) < CONTRADICTS * sqrt(VARIANCE_OF_SHAPE / count):
        return 0.0
    return min(max(shape, -1.0), HEAVIEST)


def _tails(samples: Sequence[Sequence[float]]) -> list[Tail]:
    """A tail for each sample."""
    parts = []
    for sample in samples:
        cut = len(sample) - min(max(round(EXCEED * len(sample)), FEWEST), max(1, len(sample) // 2))
        threshold = sample[max(0, cut - 1)]
        excesses = [value - threshold for value in sample[cut:]]
        parts.append((threshold, len(excesses) / len(sample), excesses, fmean(excesses)))
    # one shape from all excesses, each in units of its sample's mean
    together = [value / mean for _, _, excesses, mean in parts if mean > 0 for value in excesses]
    shape = shape_of(together) if len(together) > 1 else 0.0
    return [Tail(threshold, exceed, mean * (1 - shape), shape) for threshold, exceed, _, mean in parts]


def _done(sample: Sequence[float], tail: Tail, points: Sequence[float]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The probability that a rank is done before each point, and by it. sample: sorted, as the points are."""
    count, split = len(sample), bisect_right(points, tail.threshold)
    before = tuple([bisect_left(sample, at) / count for at in points[:split]])
    by = tuple([bisect_right(sample, at) / count for at in points[:split]])
    beyond = tuple([1 - tail.exceed * _survival(tail, at - tail.threshold) for at in points[split:]])
    return before + beyond, by + beyond


def _survival(tail: Tail, excess: float) -> float:
    """The probability that an excess is larger than this."""
    if tail.scale <= 0:
        return 0.0
    if tail.shape == 0:
        return exp(-excess / tail.scale)
    left = 1 + tail.shape * excess / tail.scale
    return float(left ** (-1 / tail.shape)) if left > 0 else 0.0


def _excess(tail: Tail, survival: float) -> float:
    """The inverse of _survival."""
    if tail.shape == 0:
        return -tail.scale * log(survival)
    return tail.scale * float(survival**-tail.shape - 1) / tail.shape


def _points(samples: Sequence[Sequence[float]], tails: Sequence[Tail]) -> tuple[float, ...]:
    """Points of the integral: dense in the sample, then even in the logarithm of the probability beyond it."""
    laws = zip(samples, tails, strict=True)
    bulk = sorted(value for sample, tail in laws for value in sample if value <= tail.threshold)
    beyond = [
        max(tail.threshold + _excess(tail, 10 ** (-step / TAIL_PER_DECADE)) for tail in tails)
        for step in range(TAIL_PER_DECADE * DECADES + 1)
    ]
    return tuple(sorted({*bulk[:: max(1, len(bulk) // BULK)], bulk[-1], *beyond}))
