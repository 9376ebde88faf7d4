"""Two runs with other trial names: which trial is compared with which one, as the user matches them."""

import csv
import io
import json

import pytest

from ddptui.analysis.results import Results
from ddptui.report.run_diff import comparison
from ddptui.report.run_diff.matching import ComparisonError, Matches, matches_of, pairs, settings_apart, suggested
from ddptui.report.run_diff.pairs import Pair
from ddptui.report.run_diff.render import as_csv, as_json, text
from tests.support.builders import preset_of, results_for
from tests.support.measured_cells import cell, of_primitives, result
from tests.support.two_runs import run_with


def run_a() -> Results:
    return run_with({"one": (10, 10), "spawn": (10, 10)}, run="first")


def run_b() -> Results:
    return run_with({"one": (10, 10), "process": (20, 20)}, run="second")


def of_settings(**trials: dict[str, object]) -> Results:
    """A run of these trials, by name, with these fields; it has no figures."""
    return results_for(preset_of({"trial": [{"name": name, **fields} for name, fields in trials.items()]}))


def paired(a: Results, b: Results, matches: Matches) -> list[tuple[str, str]]:
    return [(pair.a.name, pair.b.name) for pair in pairs(a, b, matches)]


# The pairs


def test_without_a_match_trials_go_by_name() -> None:
    assert paired(run_a(), run_b(), {}) == [("one", "one")]


def test_a_match_adds_its_pair_and_leaves_the_others_by_name() -> None:
    assert paired(run_a(), run_b(), {"spawn": "process"}) == [("one", "one"), ("spawn", "process")]


def test_a_match_with_none_leaves_the_trial_out() -> None:
    assert paired(run_a(), run_b(), {"one": None}) == []


def test_a_matched_trial_of_b_is_not_compared_by_name_too() -> None:
    assert paired(run_a(), run_b(), {"spawn": "one"}) == [("spawn", "one")]


def test_two_trials_can_change_places() -> None:
    a, b = run_with({"x": (1,), "y": (1,)}), run_with({"x": (1,), "y": (1,)})
    assert paired(a, b, {"x": "y", "y": "x"}) == [("x", "y"), ("y", "x")]


@pytest.mark.parametrize(
    ("matches", "why"),
    [
        ({"spwn": "process"}, "--match spwn=process: no trial 'spwn' in A, first: did you mean 'spawn'?"),
        ({"spawn": "proces"}, "--match spawn=proces: no trial 'proces' in B, second: did you mean 'process'?"),
        ({"spawn": "x"}, "--match spawn=x: no trial 'x' in B, second: it has one, process"),
        ({"one": "process", "spawn": "process"}, "--match: one and spawn cannot both be compared with process: leave"),
    ],
)
def test_a_match_that_cannot_be_is_refused(matches: Matches, why: str) -> None:
    with pytest.raises(ComparisonError) as refused:
        pairs(run_a(), run_b(), matches)
    assert str(refused.value).startswith(why)
    assert "\n" not in str(refused.value)


# As typed


def test_matches_are_read_as_typed() -> None:
    assert matches_of(["spawn=process", "one="]) == {"spawn": "process", "one": None}
    assert matches_of([]) == {}


@pytest.mark.parametrize("typed", [["spawn"], ["=process"], ["="], ["a=b", "a=c"]])
def test_what_is_no_match_is_refused(typed: list[str]) -> None:
    with pytest.raises(ComparisonError, match=f"^--match {typed[-1]}: "):
        matches_of(typed)


# What the dialog begins with


def test_equal_names_come_first_and_then_equal_settings() -> None:
    a = of_settings(ddp={"strategy": "ddp"}, flat={"strategy": "flat"}, alone={"epochs": 9})
    b = of_settings(flat={"strategy": "ddp"}, renamed={"strategy": "ddp"}, again={"strategy": "ddp"})
    assert suggested(a, b) == {"ddp": "renamed", "flat": "flat", "alone": None}


def test_each_trial_is_suggested_once() -> None:
    a, b = of_settings(x={}, y={}, z={}), of_settings(u={}, v={})
    assert suggested(a, b) == {"x": "u", "y": "v", "z": None}


def test_settings_apart_are_named_without_the_name() -> None:
    a, b = of_settings(x={"strategy": "ddp"}), of_settings(y={"strategy": "flat", "epochs": 1})
    assert settings_apart(Pair(a.trials[0], b.trials[0])) == ["epochs", "strategy"]
    assert settings_apart(Pair(a.trials[0], a.trials[0])) == []


# What is said of them


def test_answer_table_and_differences_speak_of_the_pair() -> None:
    compared = comparison(run_a(), run_b(), {"spawn": "process"})
    assert compared.answer.startswith("B was 2.00 ± 0.00 times slower than A in spawn | process;")
    assert any(line.startswith("spawn | process    ") for line in text(compared, 80).splitlines())
    assert any(line.startswith("spawn | process: 0.03 s") for line in compared.differences)
    assert not any("only in" in line or "name:" in line for line in compared.differences)


def test_a_trial_that_is_matched_with_none_is_in_one_run_only() -> None:
    compared = comparison(run_a(), run_b(), {"one": None})
    assert {"only in A: one, spawn", "only in B: one, process"} <= {*compared.differences}
    assert compared.answer.startswith("Nothing to compare")


def test_scripts_read_the_pair_and_the_name_of_each_trial() -> None:
    compared = comparison(run_a(), run_b(), {"spawn": "process"})
    by_name, matched = json.loads(as_json(compared))["rows"]
    keys = ("trial", "a_trial", "b_trial")
    assert [by_name[key] for key in keys] == ["one", "one", "one"]
    assert [matched[key] for key in keys] == ["spawn | process", "spawn", "process"]
    assert [row["trial"] for row in csv.DictReader(io.StringIO(as_csv(compared)))] == ["one", "spawn | process"]


def test_primitives_are_matched_too() -> None:
    a, _ = of_primitives({"slow": [result([cell("all_reduce", 1024, 50)])]})
    b, _ = of_primitives({"fast": [result([cell("all_reduce", 1024, 25)])]})
    assert comparison(a, b).answer.startswith("Nothing to compare")
    compared = comparison(a, b, {"slow": "fast"})
    assert compared.answer.startswith("B took 0.50 times as long as A")
    [row] = json.loads(as_json(compared))["rows"]
    assert [row[key] for key in ("trial", "a_trial", "b_trial")] == ["slow | fast", "slow", "fast"]
