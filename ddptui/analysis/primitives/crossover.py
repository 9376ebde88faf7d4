"""Compares operations that have the same result: from which size on one overtakes another, and which is fastest at
which size. Pure.

All composites have the same result, the mean of all ranks' tensors. A bare all_reduce counts among them if none that
divides was measured.

A crossover counts if one is faster at some size, and the other at a larger size, each by more than CLEAR: less is
noise. Of measurements, only sizes count at which both medians mean something; of fitted lines, only differences that
exceed their own typical error. The size is where the two lines cross on logarithmic axes, between the last clear
difference and the first one of the other sign.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations, pairwise, takewhile
from math import exp, log
from statistics import median
from typing import NamedTuple

from ddptui.analysis.primitives.cells import PrimitiveKey, by_operation, has_a_median
from ddptui.analysis.primitives.fit import (
    Fit,
    Times,
    fit_all,
    network_of,
    predicted_time,
    textbook_time,
    times_of,
)
from ddptui.analysis.primitives.results import PrimitivesResult

CLEAR = 0.10  # of the faster time
STEPS_A_DOUBLING = 8  # of the size, at which fitted lines are evaluated
Ratio = tuple[float, float]  # bytes, and the logarithm of the first operation's time over the second's


class Crossing(NamedTuple):
    """At `size` bytes `after` overtakes `before`."""

    before: PrimitiveKey
    after: PrimitiveKey
    size: float


class Overtaking(NamedTuple):
    """From how many bytes on `after` is faster than `before`. None: it is not, within the measured sizes."""

    before: PrimitiveKey
    after: PrimitiveKey
    measured: float | None
    fitted: float | None
    textbook: float | None  # by its formulas


def overtakings(result: PrimitivesResult, fitted: Sequence[Fit] | None = None) -> list[Overtaking]:
    """The overtakings of all pairs with the same result. fitted: the fits of the result, if they are known already."""
    all_fits = fit_all(result) if fitted is None else fitted
    models = {fit.key: fit for fit in all_fits}
    groups = steady_times(result)
    network = network_of(all_fits, result.cadence)

    def by_the_book(fit: Fit, size: float) -> float | None:
        return textbook_time(fit, size, network[0]) if network else None

    return [
        overtaking
        for one, other in combinations(rivals(models), 2)
        for overtaking in _overtakings_of_pair(
            measured_crossings(one, other, groups[one], groups[other]),
            fitted_crossings(models[one], models[other]),
            _line_crossings(models[one], models[other], by_the_book, CLEAR),
        )
    ]


def steady_times(result: PrimitivesResult) -> dict[PrimitiveKey, dict[int, float]]:
    """Of each operation, the medians that mean something, in s by bytes."""
    return {key: times_of([*filter(has_a_median, cells)]) for key, cells in by_operation(result.cells).items()}


def rivals(measured: Iterable[PrimitiveKey]) -> list[PrimitiveKey]:
    """Of the measured operations, those with the same result."""
    keys = list(measured)
    composites = [key for key in keys if key.composite]
    divided = any(key.operation == "all_reduce" for key in composites)
    bare = [] if divided else [key for key in keys if key.operation == "all_reduce" and not key.composite]
    return [*[key for key in bare if key.reduce_op in (None, "sum", "avg")], *composites]


def measured_crossings(one: PrimitiveKey, other: PrimitiveKey, times: Times, others: Times) -> list[Crossing]:
    """The crossings of the measured times."""
    sizes = sorted(size for size in times if size in others)
    return crossings(one, other, [(size, log(times[size] / others[size])) for size in sizes])


def fitted_crossings(one: Fit, other: Fit) -> list[Crossing]:
    """The crossings of the fitted curves, between the smallest and the largest size of both."""
    return _line_crossings(one, other, predicted_time, max(CLEAR, _typical_residual(one), _typical_residual(other)))


def crossings(one: PrimitiveKey, other: PrimitiveKey, ratios: Sequence[Ratio], least: float = CLEAR) -> list[Crossing]:
    """The crossings of a line of ratios, in the order of their sizes. least: the smallest difference that counts."""
    # Logarithms make "10 % faster" the same distance from 0 in both directions.
    clear = [at for at, (_, ratio) in enumerate(ratios) if abs(ratio) > log(1 + least)]
    crossed = []
    for last, first in pairwise(clear):
        if ratios[last][1] * ratios[first][1] < 0:
            before, after = (one, other) if ratios[last][1] < 0 else (other, one)
            crossed.append(Crossing(before, after, _zero_crossing(ratios[last : first + 1])))
    return crossed


def _zero_crossing(ratios: Sequence[Ratio]) -> float:
    """The size at which the line crosses zero: of an odd number of crossings, the middle one."""
    zeros = [
        exp(log(left) + (log(right) - log(left)) * low / (low - high))
        for (left, low), (right, high) in pairwise(ratios)
        if (low < 0) != (high < 0)
    ]
    return zeros[len(zeros) // 2]


def _typical_residual(fit: Fit) -> float:
    return median(map(abs, fit.residuals.values())) if fit.residuals else 0.0


def _line_crossings(one: Fit, other: Fit, time: Callable[[Fit, float], float | None], least: float) -> list[Crossing]:
    sizes = sorted(size for size in one.times if size in other.times and size > 0)  # 0 has no logarithm
    ratios = []
    for step in _log_spaced(sizes[0], sizes[-1]) if len(sizes) > 1 else []:
        first, second = time(one, step), time(other, step)
        if first and second:
            ratios.append((step, log(first / second)))
    return crossings(one.key, other.key, ratios, least)


def _log_spaced(low: int, high: int) -> list[float]:
    """Sizes from one to another, evenly spaced on a logarithmic axis."""
    count = max(1, round(log(high / low) / log(2) * STEPS_A_DOUBLING))
    return [low * (high / low) ** (at / count) for at in range(count + 1)]


def _overtakings_of_pair(
    measured: Sequence[Crossing], fitted: Sequence[Crossing], by_the_book: Sequence[Crossing]
) -> list[Overtaking]:
    """One for each direction in which an operation overtakes the other, with the first size of each kind."""
    kinds = (measured, fitted, by_the_book)
    directions = dict.fromkeys(crossing[:2] for crossings in kinds for crossing in crossings)
    overtakings = []
    for direction in directions:
        first_sizes = [next((crossing.size for crossing in kind if crossing[:2] == direction), None) for kind in kinds]
        overtakings.append(Overtaking(*direction, *first_sizes))
    return overtakings


class Span(NamedTuple):
    """From the size `first` to the size `last`, in bytes, no operation is clearly faster than `way`."""

    way: PrimitiveKey
    first: int
    last: int


def fastest_spans(times: Mapping[PrimitiveKey, Times]) -> list[Span]:
    """Which operation is fastest at which of the sizes that all have, in as few spans as possible. times: in s by
    bytes."""
    sizes = sorted(set.intersection(*map(set, times.values()))) if times else []
    spans = []
    while sizes:
        runs = {way: _run(way, sizes, times) for way in times}
        way = max(times, key=lambda way: (len(runs[way]), -times[way][sizes[0]]))
        spans.append(Span(way, runs[way][0], runs[way][-1]))
        sizes = sizes[len(runs[way]) :]
    return spans


def _run(way: PrimitiveKey, sizes: Sequence[int], times: Mapping[PrimitiveKey, Times]) -> list[int]:
    """The first sizes, one after the other, at which no operation is clearly faster."""

    def is_near(size: int) -> bool:
        return times[way][size] <= (1 + CLEAR) * min(of_way[size] for of_way in times.values())

    return [*takewhile(is_near, sizes)]
