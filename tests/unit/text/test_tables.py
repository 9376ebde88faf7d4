"""Rows in the order of a column, and a line each."""

import pytest

from ddptui.text.tables import Filled, Table, as_markdown, as_text, order


def in_order(cells: list[str], *, reverse: bool = False) -> list[str]:
    return [cells[place] for place in order(cells, reverse=reverse)]


@pytest.mark.parametrize(
    "cells",
    [
        ["0.31", "2.50", "10.02"],
        ["7%", "85%", "100%"],
        ["2.28 ms, 1×", "0.01 s, 9×", "0.3 s, 1×", "1.83 s, 177×"],
        ["sleep-5ms", "sleep-10ms", "sleep-10ms-twice"],
        ["all_reduce", "ddp", "Ring"],
        ["rank 2: data", "rank 10: backward"],
        ["9e-09", "0.02", "1e+03"],
        ["-0.30", "-0.05", "0.00", "+0.13", "+1.63"],
        ["870 ns", "12 µs", "3 ms", "2.5 s", "5 min", "1.2 h"],
        ["rank 1: 20 ms", "rank 1: 1.2 s", "rank 10: 3 ms"],
        ["512 B", "1 KB", "1.50 KB", "2 MB", "1 GB"],
        ["900+812 MB", "1.92+1.21 GB", "2.50…9.75 GB"],
        ["999", "1,024", "1,000,000"],
    ],
)
def test_figures_are_compared_as_numbers_and_words_as_words(cells: list[str]) -> None:
    assert in_order(cells[::-1]) == cells
    assert in_order(cells, reverse=True) == cells[::-1]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("silent", ["–", "", "failed", "stopped"])
def test_what_says_nothing_is_last_both_ways(silent: str, reverse: bool) -> None:
    assert in_order([silent, "2", "10"], reverse=reverse)[-1] == silent


def test_equals_stay_as_they_were() -> None:
    assert order(["1.0", "0.5", "1.0", "–", "–"]) == [1, 0, 2, 3, 4]
    assert order(["1.0", "0.5", "1.0"], reverse=True) == [0, 2, 1]


def test_a_line_break_in_a_cell_ends_no_row() -> None:
    table = Table([Filled("host", ["a\nb | c"], left=True)])
    assert as_text(table, 80)[-1] == "a b | c"
    assert as_markdown(table)[-1] == "| a b \\| c |"
