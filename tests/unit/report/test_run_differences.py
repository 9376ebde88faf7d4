"""Two runs side by side: which trials are compared, and what differs besides the figures."""

import pytest

from ddptui.analysis.policy import Caution
from ddptui.analysis.results import Results
from ddptui.report.notes import answer, note_lines
from ddptui.report.run_diff import NO_DIFFERENCE, UNEXPLAINED
from ddptui.report.table import text
from ddptui.run.compare import Matches, matches_of
from ddptui.store.runs import RunError
from tests.support.builders import journal, load, results_for, two_trials
from tests.support.measured_cells import cell, of_primitives, result
from tests.support.two_runs import compared, run_of, run_with
from tests.unit.report.edited import edited, warned


def differences(a: Results, b: Results) -> list[str]:
    return [*(compared(a, b)[0].differences or ())]


def test_fields_that_differ_are_told_once_for_all_trials() -> None:
    a = results_for(two_trials(), journal("a"), journal("b"))
    b = results_for(two_trials(defaults={"epochs": 1}), journal("a"), journal("b"))
    assert differences(a, b) == ["all trials: epochs: 3 in A, 1 in B"]
    late = {"at": "data", "ranks": [0], "sleep_ms": 5}
    one = two_trials(trial=[{"name": "a", "bottleneck": [late]}, {"name": "b"}])
    assert differences(a, results_for(one, journal("a"), journal("b"))) == [
        "B:a: bottleneck: none in A, data 5 ms on 0 in B"
    ]


def test_what_they_ran_on_presets_and_repeats_are_compared() -> None:
    a = run_of(1, environment={"cores": 2, "host": "x", "packages": {"torch": "2.1", "numpy": "2"}})
    b = run_of(1, environment={"cores": 4, "host": "x", "packages": {"torch": "2.2", "numpy": "2"}})
    assert differences(a, b) == ["cores: 2 in A, 4 in B", "torch: 2.1 in A, 2.2 in B"]
    assert "torch: 2.1 in A, none in B" in differences(a, run_of(1, environment={"packages": None}))
    told = differences(run_of(2), run_of(1.95, 2, 2.05, preset="other"))
    assert told == ["preset: made in A, other in B", "repeats: 1 in A, 3 in B"]


def test_a_damaged_journal_is_said_of_its_run() -> None:
    results, preset = compared(run_of(1), run_of(2, unread=["line 3 cannot be read"]))
    assert results.unread == ["B: line 3 cannot be read"]
    assert note_lines(results, preset)[0] == "caution: B: line 3 cannot be read"


def slow_and_disturbed(*loads: float) -> Results:
    """As `run_of`, with `a` at 4 s a step and other programs that kept so many cores busy meanwhile."""
    told = journal("a", step_ms=4_000)
    told[1:1] = [load(busy=1 + others, own=1, at_ms=5_000 + 1_000 * place) for place, others in enumerate(loads)]
    return results_for(two_trials(repeats=1), told, journal("b"))


def test_times_that_differ_although_nothing_or_a_field_of_another_trial_does_are_said() -> None:
    assert differences(run_of(100, 102), run_of(400, 402)) == [f"B:a: {UNEXPLAINED}"]
    assert differences(run_of(400, 402), run_of(100, 102)) == [f"B:a: {UNEXPLAINED}"]
    a = run_with({"a": (100, 101), "b": (100, 101)})
    b = run_with({"a": SLOW, "b": SLOW})
    other = edited(b, trial=lambda one: {"config": one.config | {"epochs": 1}} if one.name == "b" else {})
    assert differences(a, other) == [f"B:a: {UNEXPLAINED}", "B:b: epochs: 3 in A, 1 in B"]


@pytest.mark.parametrize(("a", "b"), [((100,), (400,)), ((100, 110), (60, 140))])
def test_times_that_repeats_may_differ_by_need_no_explanation(a: tuple[float, ...], b: tuple[float, ...]) -> None:
    assert differences(run_of(*a), run_of(*b)) == [NO_DIFFERENCE]


SLOW = (4_000, 4_010)  # three steps of so many ms, twice


def test_what_a_console_took_and_the_load_before_the_run_explain_a_difference() -> None:
    a = run_of(100, 101, environment={"load_before": 0.1, "cores": 2})
    b = run_of(*SLOW, environment={"load_before": 3.94, "cores": 4})
    assert differences(a, b) == ["load average before the run: 0.1 in A, 3.9 in B", "cores: 2 in A, 4 in B"]
    a, b = ({"watched": watched} for watched in ("headless", "in the console"))
    told = differences(run_of(100, 101, environment=a), run_of(*SLOW, environment=b))
    assert told == ["watched: headless in A, in the console in B; a console that draws takes time from the ranks"]
    assert UNEXPLAINED in differences(run_of(100, 101, environment=a), run_of(*SLOW, environment={}))[0]


@pytest.mark.parametrize("b", [{"load_before": 0.3}, {"load_before": "many"}])
def test_about_the_same_load_or_an_unknown_one_explains_nothing(b: dict[str, object]) -> None:
    told = differences(run_of(100, 101, environment={"load_before": 0.1}), run_of(*SLOW, environment=b))
    assert told == [f"B:a: {UNEXPLAINED}"]


def test_other_programs_during_training_are_named_with_their_cores() -> None:
    quiet, busy = slow_and_disturbed(0.0, 0.2), slow_and_disturbed(1.4, 1.6)
    assert differences(quiet, busy) == ["cores busy with other programs during training: B:a 1.5, in A 0.1"]
    assert not any(UNEXPLAINED in line for line in differences(run_of(100), busy))


def test_a_caution_that_slows_down_explains_a_difference_and_others_do_not() -> None:
    a, b = run_of(100, 101), run_of(*SLOW)
    assert differences(a, warned(b, lambda _: [Caution.HELD_BACK])) == [NO_DIFFERENCE]
    assert differences(a, warned(b, lambda _: [Caution.HOST_TIME])) == [f"B:a: {UNEXPLAINED}"]


RUN_A = run_with({"one": (10, 10), "spawn": (10, 10)}, run="first")
RUN_B = run_with({"one": (10, 10), "process": (20, 20)}, run="second")


def paired(a: Results, b: Results, matches: Matches) -> list[tuple[str, str]]:
    """The names of the trials that are compared, A's first."""
    baselines = compared(a, b, matches)[0].baselines or {}
    return [(mine[2:], name[2:]) for name, mine in baselines.items() if name.startswith("B:")]


def test_a_match_adds_its_pair_leaves_one_out_or_makes_two_change_places() -> None:
    assert paired(RUN_A, RUN_B, {"spawn": "process"}) == [("one", "one"), ("spawn", "process")]
    assert paired(RUN_A, RUN_B, {"one": None}) == []
    assert paired(RUN_A, RUN_B, {"spawn": "one"}) == [("spawn", "one")]
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
        compared(RUN_A, RUN_B, matches)
    assert str(refused.value).startswith(why)
    assert "\n" not in str(refused.value)


def test_matches_are_read_as_typed_and_both_names_are_spoken_of() -> None:
    assert matches_of(["spawn=process", "one="]) == {"spawn": "process", "one": None}
    assert matches_of([]) == {}
    results, preset = compared(RUN_A, RUN_B, {"spawn": "process"})
    assert answer(results)[0].startswith("B:process took 2.00 ± 0.00 times as long as A:spawn;")
    names = [line.split()[0] for line in text(results, preset, 80).splitlines() if line.startswith(("A:", "B:"))]
    assert names[-4:] == ["A:one", "B:one", "A:spawn", "B:process"]
    assert results.differences == [f"B:process: {UNEXPLAINED}"]


@pytest.mark.parametrize("typed", [["spawn"], ["=process"], ["a=b", "a=c"]])
def test_what_is_no_match_is_refused(typed: list[str]) -> None:
    with pytest.raises(RunError, match=f"^--match {typed[-1]}: "):
        matches_of(typed)


def test_primitives_are_matched_too() -> None:
    a, _ = of_primitives({"slow": [result([cell("all_reduce", 1024, 50)])]})
    b, _ = of_primitives({"fast": [result([cell("all_reduce", 1024, 25)])]})
    assert answer(compared(a, b)[0])[0].startswith("Nothing to compare")
    assert answer(compared(a, b, {"slow": "fast"})[0])[0].startswith("Calls took 0.50 times as long in B as in A")
