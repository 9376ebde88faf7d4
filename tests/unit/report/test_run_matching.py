"""Two runs with other trial names: which trial is compared with which one, as the user matches them."""

import pytest

from ddptui.analysis.results import Results
from ddptui.report.notes import answer
from ddptui.report.run_diff import UNEXPLAINED
from ddptui.report.table import text
from ddptui.run.compare import Matches, matches_of
from ddptui.store.runs import RunError
from tests.support.measured_cells import cell, of_primitives, result
from tests.support.two_runs import compared, run_with


def run_a() -> Results:
    return run_with({"one": (10, 10), "spawn": (10, 10)}, run="first")


def run_b() -> Results:
    return run_with({"one": (10, 10), "process": (20, 20)}, run="second")


def paired(a: Results, b: Results, matches: Matches) -> list[tuple[str, str]]:
    """The names of the trials that are compared, A's first."""
    baselines = compared(a, b, matches)[0].baselines or {}
    return [(mine[2:], name[2:]) for name, mine in baselines.items() if name.startswith("B:")]


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
    with pytest.raises(RunError) as refused:
        compared(run_a(), run_b(), matches)
    assert str(refused.value).startswith(why)
    assert "\n" not in str(refused.value)


# As typed


def test_matches_are_read_as_typed() -> None:
    assert matches_of(["spawn=process", "one="]) == {"spawn": "process", "one": None}
    assert matches_of([]) == {}


@pytest.mark.parametrize("typed", [["spawn"], ["=process"], ["="], ["a=b", "a=c"]])
def test_what_is_no_match_is_refused(typed: list[str]) -> None:
    with pytest.raises(RunError, match=f"^--match {typed[-1]}: "):
        matches_of(typed)


# What is said of them


def test_answer_table_and_differences_speak_of_both_names() -> None:
    results, preset = compared(run_a(), run_b(), {"spawn": "process"})
    assert answer(results)[0].startswith("B:process took 2.00 ± 0.00 times as long as A:spawn;")
    names = [line.split()[0] for line in text(results, preset, 80).splitlines() if line.startswith(("A:", "B:"))]
    assert names[-4:] == ["A:one", "B:one", "A:spawn", "B:process"]
    assert results.differences == [f"B:process: {UNEXPLAINED}"]


def test_a_trial_that_is_matched_with_none_is_compared_with_none() -> None:
    results, _ = compared(run_a(), run_b(), {"one": None})
    assert results.differences == ["no trial of the other run matches A:one, A:spawn, B:one, B:process"]
    assert answer(results)[0].startswith("Nothing to compare")


def test_primitives_are_matched_too() -> None:
    a, _ = of_primitives({"slow": [result([cell("all_reduce", 1024, 50)])]})
    b, _ = of_primitives({"fast": [result([cell("all_reduce", 1024, 25)])]})
    assert answer(compared(a, b)[0])[0].startswith("Nothing to compare")
    assert answer(compared(a, b, {"slow": "fast"})[0])[0].startswith("Calls took 0.50 times as long in B as in A")
