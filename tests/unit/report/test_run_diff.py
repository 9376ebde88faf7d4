"""Two runs side by side: the answer, the table of the trials that both have, and what scripts read of it."""

import csv
import io
import json
from typing import Any

import msgspec
import pytest

from ddptui.analysis.cautions import Caution
from ddptui.analysis.results import Results
from ddptui.report.run_diff import comparison
from ddptui.report.run_diff.matching import ComparisonError
from ddptui.report.run_diff.pairs import RANGE
from ddptui.report.run_diff.render import NO_DIFFERENCE, as_csv, as_json, markdown, text
from ddptui.report.run_diff.trials import FIGURES, SPOILT
from ddptui.text.tables import telling
from tests.support.builders import ended, failure, journal, results_for, two_trials
from tests.support.measured_cells import cell, of_primitives, result
from tests.support.two_runs import run_of, run_with


def cells(a: Results, b: Results, row: int = 0) -> dict[str, str]:
    return {column.header: column.cells[row] for column in comparison(a, b).table.columns}


def answer(a: Results, b: Results) -> str:
    return comparison(a, b).answer


def spoilt(results: Results) -> Results:
    """The same, with every repeat of `a` disturbed by other programs."""
    first, *others = results.trials
    disturbed = [msgspec.structs.replace(repeat, warnings=[Caution.OTHER_LOAD]) for repeat in first.repeats]
    return msgspec.structs.replace(results, trials=[msgspec.structs.replace(first, repeats=disturbed), *others])


# The table


def test_the_ratio_is_b_over_a_and_its_range_what_the_repeats_allow() -> None:
    shown = cells(run_of(100, 120), run_of(300, 360))
    assert (shown["A train s"], shown["B train s"]) == ("0.33", "0.99")
    assert shown["B / A"] == "3.00"
    assert shown["range"] == "2.50…3.60"


@pytest.mark.parametrize(
    ("b", "said"),
    [
        ((300, 360), "B slower"),
        ((30, 36), "B faster"),
        ((110, 900), "no difference seen"),
        ((120, 300), "no difference seen"),
        ((10, 110), "no difference seen"),
        ((130, 200), "no difference seen"),  # all of B took longer than all of A, which may well be chance
    ],
)
def test_a_difference_within_the_spread_is_none(b: tuple[float, ...], said: str) -> None:
    assert cells(run_of(100, 120), run_of(*b))["so B is"] == said


def test_one_repeat_has_no_spread() -> None:
    shown = cells(run_of(100), run_of(500))
    assert (shown["range"], shown["so B is"]) == ("–", "cannot tell: one repeat each")


def test_a_trial_that_failed_in_one_run_says_so_and_has_no_ratio() -> None:
    broken = results_for(two_trials(), failure("a"), journal("b"))
    shown = cells(run_of(100, 200), broken)
    assert (shown["B train s"], shown["B / A"], shown["so B is"]) == ("failed", "–", "cannot tell: no time in B")
    assert shown["loss"].endswith("→ –")


def test_a_trial_that_was_stopped_or_not_reached_is_called_so() -> None:
    cut = [*journal("a")[:-3], ended("skipped")]
    shown = [cells(run_of(100, 200), results_for(two_trials(), cut), row)["B train s"] for row in (0, 1)]
    assert shown == ["stopped", "not reached"]


def test_figures_of_both_stand_side_by_side() -> None:
    assert cells(run_of(100), run_of(100))["loss"] == "0.667 → 0.667"


def test_columns_with_nothing_to_say_are_left_out() -> None:
    shown = [column.header for column in telling(comparison(run_of(100), run_of(500)).table.columns)]
    assert "range" not in shown
    assert "waits for" not in shown
    assert shown[:4] == ["trial", "A train s", "B train s", "B / A"]


def test_times_of_a_disturbed_run_are_marked_and_tell_nothing() -> None:
    compared = comparison(run_of(100, 101), spoilt(run_of(400, 401)))
    shown = {column.header: column.cells[0] for column in compared.table.columns}
    assert (shown["A train s"], shown["B train s"], shown["range"]) == ("0.30", "1.20 ⚠", "–")
    assert shown["so B is"] == "cannot tell: B was disturbed by other programs"
    assert compared.notes == [RANGE, SPOILT]


# The answer


@pytest.mark.parametrize(
    ("a", "b", "said"),
    [
        (
            {"all_reduce": (100, 104), "ddp": (10, 12)},
            {"all_reduce": (130, 134), "ddp": (11, 13)},
            "B was 1.29 ± 0.05 times slower than A in all_reduce; no difference was seen in ddp.",
        ),
        ({"a": (130, 134)}, {"a": (100, 104)}, "B was 1.29 ± 0.05 times faster than A in a."),
        (
            {"a": (10, 10), "b": (10, 10), "c": (10, 10)},
            {"a": (20, 20), "b": (40, 40), "c": (5, 5)},
            "B was slower than A in b (4.00 ± 0.00 times) and a (2.00 ± 0.00 times);"
            " B was 2.00 ± 0.00 times faster than A in c.",
        ),
        (
            dict.fromkeys("abcde", (10, 11)),
            dict.fromkeys("abcde", (10, 11)),
            "No difference was seen in a, b, c and 2 more: what the repeats differ by can be chance.",
        ),
        (
            {"a": (1000, 1001)},
            {"a": (1004, 1005)},
            "No difference was seen in a: what the repeats differ by can be chance.",
        ),
        ({"a": (1,)}, {"a": (2,)}, "Cannot tell: one repeat each. Take more `--repeats`."),
        ({"a": (1, 1)}, {"a": (2,)}, "Cannot tell: one repeat in B. Take more `--repeats`."),
        (
            {"a": (10, 10), "b": (10,)},
            {"a": (20, 20), "b": (10, 10)},
            "B was 2.00 ± 0.00 times slower than A in a. Cannot tell: one repeat in A (b). Take more `--repeats`.",
        ),
    ],
)
def test_the_answer_comes_in_one_to_three_sentences(a: Any, b: Any, said: str) -> None:
    assert answer(run_with(a), run_with(b)) == said


def test_what_was_disturbed_or_failed_is_named_in_the_answer() -> None:
    a, b = run_of(100, 101), run_of(400, 401)
    told = "Cannot tell: {} (a)."
    no_difference = "No difference was seen in b: what the repeats differ by can be chance. "
    assert answer(spoilt(a), b) == no_difference + told.format("A was disturbed by other programs")
    broken = results_for(two_trials(), failure("a"), journal("b"), journal("b", 2))
    assert answer(a, broken) == no_difference + told.format("no time in B")


def test_runs_without_a_common_trial_say_so_and_what_to_do() -> None:
    compared = comparison(run_of(1), run_with({"x": (1,)}, preset="other"))
    assert compared.answer == (
        "Nothing to compare: no trial is in both runs (A is of made, B of other); name two runs of the same preset, or"
        " match trials by hand: `m` in the console, `--match A=B` in a shell."
    )
    assert "only in B: x" in compared.differences
    assert as_csv(compared) == ",".join(FIGURES) + "\n"
    for said in (text(compared, 80), markdown(compared)):
        assert "B / A" not in said
        assert "only in B: x" in said


# As text, and for scripts


def test_the_text_has_the_answer_first_then_the_table_then_what_else_differs() -> None:
    a, b = run_of(100, 120), run_of(300, 360, environment={"host": "there"}, run="later")
    assert text(comparison(a, b), 80).splitlines() == [
        "B was 3.00 ± 0.60 times slower than A in a; no difference was seen in b.",
        "",
        "A: the-run",
        "B: later",
        "",
        "trial  A train s  B train s  B / A      range  so B is                      loss",
        "────────────────────────────────────────────────────────────────────────────────",
        "a           0.33       0.99   3.00  2.50…3.60  B slower            0.667 → 0.667",
        "b           0.03       0.03   1.00  1.00…1.00  no difference seen  0.667 → 0.667",
        "",
        RANGE,
        "",
        "What else differs:",
        *comparison(a, b).differences,
    ]
    assert text(comparison(a, a), 80).splitlines()[-1] == NO_DIFFERENCE
    for width in (10, 40, 200):
        assert all(len(line) <= max(width, 40) for line in text(comparison(a, b), width).splitlines()[5:9])


def test_markdown_has_every_column_and_json_and_csv_every_figure() -> None:
    compared = comparison(run_of(100, 120), run_of(300, 360))
    assert "| a | 0.33 | 0.99 | 3.00 | 2.50…3.60 | B slower | 0.667 → 0.667 |" in markdown(compared).splitlines()
    whole = json.loads(as_json(compared))
    assert [*whole] == ["a", "b", "answer", "rows", "notes", "differences"]
    first = whole["rows"][0]
    assert (first["trial"], first["finding"], first["doubt"], first["a_repeats"]) == ("a", "slower", None, 2)
    figures = ("ratio", "ratio_low", "ratio_high", "a_train_s", "b_train_s_min", "b_train_s_max", "a_loss")
    assert [first[key] for key in figures] == pytest.approx([3, 2.5, 3.6, 0.33, 0.9, 1.08, 2 / 3])
    [row, _] = csv.DictReader(io.StringIO(as_csv(compared)))
    assert row == {key: "" if value is None else str(value) for key, value in first.items()}
    [doubtful, _] = json.loads(as_json(comparison(run_of(1), run_of(2))))["rows"]
    assert [doubtful[key] for key in ("finding", "doubt", "ratio_low")] == [None, "one repeat each", None]


# Primitives


def measured(*launches: float, **changes: Any) -> Results:
    """An all_reduce of 1 and 4 KB; the larger takes so many µs, by launch."""
    several = [result([cell("all_reduce", 1024, 50), cell("all_reduce", 4096, us)], **changes) for us in launches]
    return of_primitives({"ranks-2": several})[0]


def test_primitives_are_compared_cell_by_cell() -> None:
    compared = comparison(measured(100), measured(150))
    assert compared.answer == (
        "B took 1.25 times as long as A at the median of 2 cells: from 1.00 times (all_reduce, 1 KB, 2 ranks)"
        " to 1.50 times (all_reduce, 4 KB, 2 ranks). One launch is not enough to tell a difference: take more"
        " `--repeats`."
    )
    shown = text(compared, 80).splitlines()
    assert "ranks-2      2  all_reduce  4 KB    100 µs    150 µs   1.50" in shown
    row = json.loads(as_json(compared))["rows"][1]
    assert [row[key] for key in ("operation", "bytes", "ranks", "ratio", "a_median_us", "finding")] == [
        "all_reduce", 4096, 2, 1.5, 100, None,
    ]  # fmt: skip


def test_several_launches_of_primitives_tell_a_difference() -> None:
    compared = comparison(measured(100, 110), measured(140, 150))
    assert compared.answer.endswith("It was slower in 1 cell and faster in 0 cells by more than the launches differ.")
    assert [cells(measured(100, 110), measured(140, 150), 1)[key] for key in ("range", "so B is")] == [
        "1.27…1.50",
        "B slower",
    ]
    assert compared.notes == [RANGE]


def test_a_cell_whose_median_stands_for_nothing_is_marked_and_not_in_the_answer() -> None:
    unsteady = msgspec.structs.replace(cell("all_reduce", 4096, 500).time_us, p90=5000)
    wild = [cell("all_reduce", 1024, 50), cell("all_reduce", 4096, 500, time_us=unsteady)]
    b, _ = of_primitives({"ranks-2": [result(wild)]})
    assert answer(measured(100), b).startswith("B took 1.00 times as long as A: all_reduce, 1 KB, 2 ranks.")
    assert cells(measured(100), b, 1)["B median"] == "¹ 500 µs"


@pytest.mark.parametrize("other", [measured(1, ranks=4), of_primitives({"x": [result([cell("barrier", 0, 1)])]})[0]])
def test_cells_of_other_ranks_or_other_trials_are_not_compared(other: Results) -> None:
    assert answer(measured(1), other).startswith("Nothing to compare: no timed operation with the same size")


def test_a_training_is_not_compared_with_primitives() -> None:
    primitives = msgspec.structs.replace(measured(1), run="timed")
    for a, b in ((run_of(1), primitives), (primitives, run_of(1))):
        with pytest.raises(ComparisonError, match="timed ran primitives, the other run trained: name two runs of one"):
            comparison(a, b)
