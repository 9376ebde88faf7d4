"""Two runs side by side: what is said of a trial that both have, and of what differs."""

from typing import Any

import msgspec
import pytest

from ddptui.analysis.results import Results
from ddptui.report.run_diff import COLUMNS, differences, pairs
from ddptui.text.tables import fill, telling
from tests.support.builders import failure, journal, preset_of, results_for, two_trials


def run_of(*step_ms: float, **changes: Any) -> Results:
    """Trial `a` with a repeat for each length of a step (three of them make the train time); `b` always the same."""
    repeats = len(step_ms)
    journals = [journal("a", number, step_ms=length) for number, length in enumerate(step_ms, start=1)]
    journals += [journal("b", number) for number in range(1, repeats + 1)]
    return msgspec.structs.replace(results_for(two_trials(repeats=repeats), *journals), **changes)


def cells(a: Results, b: Results, trial: str = "a") -> dict[str, str]:
    [pair] = [pair for pair in pairs(a, b) if pair.a.name == trial]
    return {column.header: column.cell(pair) for column in COLUMNS}


def test_the_ratio_is_b_over_a_and_its_range_what_the_repeats_allow() -> None:
    shown = cells(run_of(100, 200), run_of(400, 500))
    assert (shown["A train s"], shown["B train s"]) == ("0.45", "1.35")
    assert shown["B / A"] == "3.00"
    assert shown["range"] == "2.00…5.00"


@pytest.mark.parametrize(
    ("b", "said"),
    [
        ((400, 500), "B slower"),
        ((10, 20), "B faster"),
        ((150, 900), "within the spread"),
        ((200, 300), "within the spread"),
        ((10, 150), "within the spread"),
    ],
)
def test_a_difference_within_the_spread_is_none(b: tuple[float, ...], said: str) -> None:
    assert cells(run_of(100, 200), run_of(*b))["so B is"] == said


def test_one_repeat_has_no_spread() -> None:
    shown = cells(run_of(100), run_of(500))
    assert (shown["range"], shown["so B is"]) == ("–", "cannot tell: one repeat")


def test_a_trial_that_failed_in_one_run_says_so_and_has_no_ratio() -> None:
    broken = results_for(two_trials(), failure("a"), journal("b"))
    shown = cells(run_of(100, 200), broken)
    assert (shown["B train s"], shown["B / A"], shown["so B is"]) == ("failed", "–", "–")
    assert shown["loss"].endswith("→ –")


def test_figures_of_both_stand_side_by_side() -> None:
    assert cells(run_of(100), run_of(100))["loss"] == "0.667 → 0.667"


def test_columns_with_nothing_to_say_are_left_out() -> None:
    shown = [column.header for column in telling(fill(COLUMNS, pairs(run_of(100), run_of(500))))]
    assert "range" not in shown
    assert "waits for" not in shown
    assert shown[:4] == ["trial", "A train s", "B train s", "B / A"]


def test_trials_of_one_run_alone_are_named_and_not_paired() -> None:
    other = preset_of({"title": "?", "trial": [{"name": "b"}, {"name": "c"}]})
    a, b = run_of(100), results_for(other, journal("b"), journal("c"))
    assert [pair.a.name for pair in pairs(a, b)] == ["b"]
    assert {"only in A: a", "only in B: c"} <= set(differences(a, b))


def test_fields_that_differ_are_told_once_for_all_trials() -> None:
    a = results_for(two_trials(), journal("a"), journal("b"))
    b = results_for(two_trials(defaults={"epochs": 1}), journal("a"), journal("b"))
    assert differences(a, b) == ["all trials: epochs: 3 in A, 1 in B"]
    late = {"at": "data", "ranks": [0], "sleep_ms": 5}
    one = two_trials(trial=[{"name": "a", "bottleneck": [late]}, {"name": "b"}])
    assert differences(a, results_for(one, journal("a"), journal("b"))) == [
        "a: bottleneck: none in A, data 5 ms on 0 in B"
    ]


def test_what_they_ran_on_is_compared_but_not_the_load_of_the_day() -> None:
    a = run_of(1, environment={"cores": 2, "host": "x", "packages": {"torch": "2.1", "numpy": "2"}, "load_before": 0.1})
    b = run_of(1, environment={"cores": 4, "host": "x", "packages": {"torch": "2.2", "numpy": "2"}, "load_before": 0.9})
    assert differences(a, b) == ["cores: 2 in A, 4 in B", "torch: 2.1 in A, 2.2 in B"]
    assert "torch: 2.1 in A, none in B" in differences(a, run_of(1, environment={"packages": None}))


def test_repeats_and_presets_that_differ_are_told() -> None:
    told = differences(run_of(1), run_of(1, 2, 3, preset="other"))
    assert told == ["preset: made in A, other in B", "repeats: 1 repeat in A, 3 in B"]


def test_the_same_run_twice_differs_in_nothing() -> None:
    assert differences(run_of(1), run_of(1)) == []
