"""The plot: every point where it belongs, nothing wider or higher than it may be."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddptui.analysis.primitive_results import PrimitiveKey, PrimitivesResult
from ddptui.report.blocks import SEVERAL, What, draw
from tests.support.measured_cells import MB, SIZES, cell, cells, result

A = PrimitiveKey("all_reduce", reduce_op="sum")
B = PrimitiveKey("ring", composite=True)


def steep() -> PrimitivesResult:
    """100 µs up to 64 KB, 10 ms at 64 MB; and ten times that."""
    return result(
        cells("all_reduce", lambda size: max(100.0, size / (64 * MB) * 10_000)),
        cells("ring", lambda size: 10 * max(100.0, size / (64 * MB) * 10_000), composite=True),
    )


def plot(
    result: PrimitivesResult, operations: list[PrimitiveKey], width: int, height: int, what: What = "time"
) -> list[str]:
    lines = draw(result, operations, width, height, what)
    return ["".join(words for words, _ in line).rstrip() for line in lines]


def letters_of(lines: list[str], letter: str) -> list[tuple[int, int]]:
    """Where a letter stands, from left to right, above the axis."""
    at = [(row, column) for row, line in enumerate(lines) for column, sign in enumerate(line) if sign == letter]
    return sorted(at, key=lambda place: place[1])


def area(lines: list[str]) -> list[str]:
    """The rows of the plot, without their labels."""
    return [line.partition("┤" if "┤" in line else "│")[2] for line in lines if "│" in line or "┤" in line]


@given(st.integers(20, 160), st.integers(4, 40), st.sampled_from(["time", "busbw"]))
def test_it_has_the_size_it_may_have(width: int, height: int, what: str) -> None:
    lines = plot(steep(), [A, B], width, height, "time" if what == "time" else "busbw")
    assert len(lines) <= height
    assert max(map(len, lines)) <= width


def test_every_measured_size_has_its_letter() -> None:
    plotted = area(plot(steep(), [A, B], 100, 30))
    for letter in "ab":
        places = letters_of(plotted, letter)
        assert len(places) == len(SIZES)
        steps = {right[1] - left[1] for left, right in pairwise(places)}
        assert max(steps) - min(steps) <= 1  # sizes are a factor of four apart: evenly far
        rows = [row for row, _ in places]
        assert rows == sorted(rows, reverse=True)  # never falling
        assert len(set(rows[:3])) == 1
    below, above = letters_of(plotted, "a"), letters_of(plotted, "b")
    assert {low[0] - high[0] for low, high in zip(below, above, strict=True)} <= {9, 10, 11}  # a decade of three, of 30


def test_points_are_joined_and_the_first_and_last_are_in_the_corners() -> None:
    plotted = area(plot(steep(), [A], 80, 20))
    first, *_, last = letters_of(plotted, "a")
    assert first == (len(plotted) - 1, 0)
    assert last == (0, max(map(len, plotted)) - 1)
    for row, column in letters_of(plotted, "a")[1:-1]:
        near = {
            plotted[at][beside]
            for at in (row - 1, row, row + 1)
            for beside in (column - 1, column + 1)
            if 0 <= at < len(plotted) and beside < len(plotted[at])
        }
        assert any("⠀" < sign <= "⣿" for sign in near)


def test_axes_and_legend_say_what_is_what_and_bandwidth_rises_where_time_does_not() -> None:
    *_, sizes, legend = plot(steep(), [A, B], 100, 20)
    assert sizes.split()[:4] == ["1", "KB", "2", "KB"]
    assert sizes.endswith("64 MB")
    assert legend == "a all_reduce  b ring by hand  time"
    labels = [line.partition("┤")[0].strip() for line in plot(steep(), [A, B], 100, 20) if "┤" in line]
    assert labels == ["100 ms", "10 ms", "1 ms", "100 µs"]
    assert plot(steep(), [A], 100, 20, "busbw")[-1] == "a all_reduce  bus bandwidth, GB/s"
    first, second, *_ = letters_of(area(plot(steep(), [A], 80, 20, "busbw")), "a")
    assert second[0] < first[0]


@pytest.mark.parametrize("width", [24, 52, 101])
def test_sizes_on_the_axis_keep_apart(width: int) -> None:
    *_, sizes, _ = plot(steep(), [A], width, 12)
    assert all(re.fullmatch(r"\d+ [KM]B", label) for label in re.split(r"\s{2,}", sizes.strip()))


def test_each_operation_has_its_colour_and_two_in_one_place_are_neither() -> None:
    kinds = {words: kind for line in draw(steep(), [A, B], 80, 20) for words, kind in line if words in ("a", "b")}
    assert kinds == {"a": "series-0", "b": "series-1"}
    both = result(cells("all_reduce", lambda size: 100.0 + size), cells("reduce", lambda size: 100.0 + size))
    plotted = area(plot(both, [A, PrimitiveKey("reduce", reduce_op="sum")], 80, 20))
    assert len(letters_of(plotted, SEVERAL)) == len(SIZES)
    assert not letters_of(plotted, "a")


@pytest.mark.parametrize("operations", [[], [PrimitiveKey("barrier")], [PrimitiveKey("broadcast")]])
def test_what_has_no_sizes_is_not_drawn(operations: list[PrimitiveKey]) -> None:
    both = result([cell("barrier", 0, 80)], cells("all_reduce", lambda size: 100.0))
    assert plot(both, operations, 60, 12) == ["nothing to plot: no size was measured"]
