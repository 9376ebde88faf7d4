"""Rows in the order of a column, a line each; and bytes in the unit in which they read best."""

import pytest

from ddptui.text.tables import Filled, Table, as_markdown, as_text, order
from ddptui.text.words import part_of, size, size_unit


def in_order(cells: list[str], *, reverse: bool = False) -> list[str]:
    return [cells[place] for place in order(cells, reverse=reverse)]


@pytest.mark.parametrize(
    "cells",
    [
        ["0.31", "2.50", "10.02"],
        ["2.28 ms, 1×", "0.01 s, 9×", "0.3 s, 1×", "1.83 s, 177×"],
        ["all_reduce", "ddp", "Ring"],
        ["9e-09", "0.02", "1e+03"],
        ["-0.30", "-0.05", "0.00", "+0.13", "+1.63"],
        ["870 ns", "12 µs", "3 ms", "2.5 s", "5 min", "1.2 h"],
        ["900+812 MB", "1.92+1.21 GB", "2.50…9.75 GB"],
        ["999", "1,024", "1,000,000"],
    ],
)
def test_figures_are_compared_as_numbers_and_words_as_words(cells: list[str]) -> None:
    assert in_order(cells[::-1]) == cells
    assert in_order(cells, reverse=True) == cells[::-1]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("silent", ["–", "failed"])
def test_what_says_nothing_is_last_both_ways(silent: str, reverse: bool) -> None:
    assert in_order([silent, "2", "10"], reverse=reverse)[-1] == silent


def test_equals_stay_and_a_line_break_in_a_cell_ends_no_row() -> None:
    assert order(["1.0", "0.5", "1.0", "–", "–"]) == [1, 0, 2, 3, 4]
    assert order(["1.0", "0.5", "1.0"], reverse=True) == [0, 2, 1]
    table = Table([Filled("host", ["a\nb | c"], left=True)])
    assert as_text(table, 80)[-1] == "a b | c"
    assert as_markdown(table)[-1] == "| a b \\| c |"


MB, GB = 2**20, 2**30


@pytest.mark.parametrize(
    ("bytes", "unit"), [(0, "B"), (1023, "B"), (1024, "KB"), (1023.6 * 1024, "MB"), (5 * GB, "GB"), (2**60, "TB")]
)
def test_the_unit_is_the_largest_of_which_there_is_one(bytes: float, unit: str) -> None:
    bytes_in_unit, name = size_unit(bytes)
    assert name == unit == size(bytes).split()[1]
    assert size(bytes_in_unit) == f"1 {name}"


@pytest.mark.parametrize(
    ("part", "whole", "shown"),
    [
        (3 * GB, 17 * GB // 4, "3.0/4.2 GB"),
        (31 * MB, 64 * MB, "31/64 MB"),
        (9.94 * GB, 9.96 * GB, "9.9/10 GB"),
        (4 * MB, 80 * GB, "0.0/80 GB"),
        (0, 0, "0.0/0.0 B"),
    ],
)
def test_a_part_is_told_in_the_unit_of_the_whole(part: float, whole: float, shown: str) -> None:
    assert part_of(part, whole) == shown
