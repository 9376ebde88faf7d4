"""Where one overtakes another is found where it was put; and what is noise is no crossing."""

from collections.abc import Callable
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddptui.analysis.primitives.cells import PrimitiveKey, has_a_median, is_uneven
from ddptui.analysis.primitives.crossover import (
    Overtaking,
    crossings,
    fastest_spans,
    fitted_crossings,
    measured_crossings,
    overtakings,
    rivals,
)
from ddptui.analysis.primitives.fit import Curve, Fit
from ddptui.analysis.primitives.results import Cell
from tests.support.measured_cells import KB, MB, SIZES, cell, cells, result

A, B = PrimitiveKey("ring", composite=True), PrimitiveKey("gather_scatter", composite=True)
MIDDLE = 181 * KB  # between two sizes


def linear(start: float, per_mb: float) -> Callable[[int], float]:
    return lambda size: start + size / MB * per_mb


def pair(one: Callable[[int], float], other: Callable[[int], float]) -> list[Overtaking]:
    """Of two composites with these times in µs."""
    several = (cells(A.operation, one, composite=True), cells(B.operation, other, composite=True))
    return overtakings(result(*several))


# Where it is


def test_a_crossing_is_measured_and_fitted_where_the_times_are_equal() -> None:
    """At 0.5 MB: 100 + 800 x = 300 + 400 x."""
    [found] = pair(linear(300, 400), linear(100, 800))
    assert (found.before, found.after) == (B, A)
    assert found.fitted == pytest.approx(0.5 * MB, rel=0.02)
    assert found.measured == pytest.approx(0.5 * MB, rel=0.15)  # drawn between 256 KB and 1 MB
    assert found.textbook is None  # nothing tells α and β of a message


def test_the_order_of_the_two_does_not_matter() -> None:
    [found], [turned] = pair(linear(300, 400), linear(100, 800)), pair(linear(100, 800), linear(300, 400))
    assert (found.before, found.after) == (B, A)
    assert (turned.before, turned.after) == (A, B)
    assert turned.measured == pytest.approx(found.measured)


def test_straight_lines_on_logarithmic_axes_are_met_exactly() -> None:
    def times(start: float, power: float) -> dict[int, float]:
        return {size: start * (size / MIDDLE) ** power for size in SIZES}

    [found] = measured_crossings(A, B, times(1, 0.5), times(1, 1))
    assert found.size == pytest.approx(MIDDLE)
    assert (found.before, found.after) == (B, A)


def test_the_textbook_crosses_where_its_formulas_do() -> None:
    """On 4 ranks with α = 50 µs and β = 1 ms/MB: all_gather 3 α + 3 n β, ring 6 α + 1.5 n β, equal at 0.1 MB."""
    message = cells("isend_irecv", linear(50, 1000), ranks=4)
    ways = (cells(name, linear(100, 1), composite=True, ranks=4) for name in ("all_gather", "ring"))
    measured = result(message, *ways, ranks=4)
    [found] = overtakings(measured)
    assert overtakings(msgspec.structs.replace(measured, cadence="pipelined")) == []  # the formulas are of single calls
    assert (found.before.operation, found.after.operation) == ("all_gather", "ring")
    assert found.textbook == pytest.approx(0.1 * MB, rel=0.02)
    assert (found.measured, found.fitted) == (None, None)


# What counts


def test_one_that_is_always_faster_overtakes_nobody() -> None:
    assert pair(linear(100, 400), linear(300, 800)) == []


@pytest.mark.parametrize(("factor", "found"), [(1.05, 0), (1.2, 1)])
def test_a_difference_that_is_noise_is_no_crossing(factor: float, found: int) -> None:
    def below(size: int) -> float:
        return 100 * (factor if size < MB else 1 / factor)

    assert len(pair(below, lambda size: 100.0)) == found


def test_sizes_that_cannot_be_told_apart_lie_between_the_two_that_can() -> None:
    ratios = [(1.0, 0.5), (2.0, 0.01), (4.0, -0.01), (8.0, 0.01), (16.0, -0.01), (32.0, -0.5)]
    [found] = crossings(A, B, ratios)
    assert (found.before, found.after) == (B, A)
    assert found.size == pytest.approx(2**2.5)  # the middle one of three


@given(st.lists(st.floats(-2, 2), min_size=2, max_size=12))
def test_they_take_turns_and_lie_within_the_sizes(ratios: list[float]) -> None:
    found = crossings(A, B, [(2.0**at, ratio) for at, ratio in enumerate(ratios)])
    assert all(one.after == other.before and one.size <= other.size for one, other in pairwise(found))
    assert all(1 <= each.size <= 2.0 ** (len(ratios) - 1) for each in found)


def with_time(one: Cell, **changes: float) -> Cell:
    assert one.time_us is not None
    return msgspec.structs.replace(one, time_us=msgspec.structs.replace(one.time_us, **changes))


@pytest.mark.parametrize(
    ("changes", "cv", "median", "uneven"),
    [
        ({}, 0.05, True, False),
        ({"p90": 201.0}, 0.05, False, True),
        ({"p90": 199.0}, 0.05, True, False),
        ({"min": 33.0}, 0.05, False, True),
        ({"min": 34.0}, 0.05, True, False),
        ({"p99": 4000.0}, 1.2, True, True),
    ],
)
def test_a_median_means_something_if_most_calls_were_alike(
    changes: dict[str, float], cv: float, median: bool, uneven: bool
) -> None:
    found = with_time(cell("all_reduce", KB, 100, cv=cv), **changes)
    assert (has_a_median(found), is_uneven(found)) == (median, uneven)


def test_sizes_whose_calls_were_of_two_kinds_are_not_compared() -> None:
    steady = cells(A.operation, linear(300, 400), composite=True)
    other = cells(B.operation, linear(100, 800), composite=True)
    ticking = [with_time(each, p90=4000.0) if each.bytes < MB else each for each in other]
    [found] = overtakings(result(steady, ticking))
    assert found.measured is None
    assert found.fitted is not None


@pytest.mark.parametrize(("off", "found"), [(0.05, 1), (0.4, 0)])
def test_a_model_that_is_usually_far_off_says_nothing(off: float, found: int) -> None:
    """The two differ by a quarter at both ends."""
    residuals = {size: off * (-1) ** at for at, size in enumerate(SIZES)}
    one = Fit(A, 2, residuals, curve=Curve(100e-6, (), (500e-6 / MB,)), residuals=residuals)
    other = Fit(B, 2, residuals, curve=Curve(125e-6, (), (400e-6 / MB,)), residuals=dict.fromkeys(SIZES, 0.01))
    assert len(fitted_crossings(one, other)) == found
    assert len(fitted_crossings(other, one)) == found


def test_no_time_is_no_rival() -> None:
    lost = [cell(B.operation, size, 1, composite=True, time_us=None, error="no") for size in SIZES]
    assert overtakings(result(cells(A.operation, linear(1, 1), composite=True), lost)) == []


# Which is fastest


def test_sizes_are_spanned_by_as_few_ways_as_possible() -> None:
    """At the first size B is 5 % faster, which is not clear, so that A spans it together with the second."""
    times = {A: {1: 1.05, 4: 1.0, 16: 5.0, 64: 10.0}, B: {1: 1.0, 4: 2.0, 16: 2.0, 64: 4.0}}
    assert fastest_spans(times) == [(A, 1, 4), (B, 16, 64)]


def test_only_sizes_that_all_have_are_spanned() -> None:
    assert fastest_spans({A: {1: 1.0, 4: 1.0}, B: {4: 2.0, 16: 1.0}}) == [(A, 4, 4)]
    assert fastest_spans({A: {1: 1.0}, B: {4: 2.0}}) == fastest_spans({}) == []


# Who does the same


def test_a_bare_all_reduce_stands_for_the_one_that_is_not_there() -> None:
    bare, divided = PrimitiveKey("all_reduce", reduce_op="sum"), PrimitiveKey("all_reduce", composite=True)
    largest = PrimitiveKey("all_reduce", reduce_op="max")
    assert rivals([bare, largest, PrimitiveKey("broadcast"), A]) == [bare, A]
    assert rivals([bare, divided, A]) == [divided, A]
