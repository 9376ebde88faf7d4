"""Least squares without negative parts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddptui.analysis.primitives.least_squares import dot, nonnegative_least_squares, solve, squares


@given(st.lists(st.tuples(st.floats(0.1, 10), st.floats(0.1, 10), st.floats(-5, 5)), min_size=3, max_size=8))
def test_nothing_near_by_is_better(rows: list[tuple[float, float, float]]) -> None:
    left, targets = [row[:2] for row in rows], [row[2] for row in rows]
    found = nonnegative_least_squares(left, targets)
    assert min(found) >= 0
    least = squares(left, targets, found)
    for x in (0.0, 1e-3, -1e-3, 0.5, -0.5):
        for y in (0.0, 1e-3, -1e-3, 0.5, -0.5):
            if found[0] + x >= 0 and found[1] + y >= 0:
                assert squares(left, targets, [found[0] + x, found[1] + y]) >= least - 1e-9


@given(st.lists(st.lists(st.floats(-9, 9), min_size=3, max_size=3), min_size=3, max_size=3))
def test_equations_are_solved(matrix: list[list[float]]) -> None:
    dominant = [[value + 30 * (row == column) for column, value in enumerate(line)] for row, line in enumerate(matrix)]
    x = solve(dominant, [1.0, 2.0, 3.0])
    assert x is not None
    assert [dot(row, x) for row in dominant] == pytest.approx([1, 2, 3])


def test_equations_that_say_the_same_twice_are_not() -> None:
    assert solve([[1, 2], [2, 4]], [1, 2]) is None
