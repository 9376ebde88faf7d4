"""Two runs as one: the answer, the table of the trials of both, and what scripts read of it."""

import json
from typing import Any

import msgspec
import pytest

from ddptui.analysis.policy import Caution
from ddptui.analysis.results import Change, Results
from ddptui.config.preset import Preset
from ddptui.report.columns import columns_of
from ddptui.report.notes import answer as answer_of
from ddptui.report.notes import note_lines
from ddptui.report.primitive_tables import of_cells
from ddptui.report.rows import ROUGH, rows_of
from ddptui.report.run_diff import NO_DIFFERENCE
from ddptui.report.table import as_json, markdown, text
from ddptui.store.runs import RunError
from tests.support.builders import ended, failure, journal, results_for, two_trials
from tests.support.measured_cells import cell, of_primitives, result
from tests.support.printed import csv_rows
from tests.support.two_runs import compared, preset_behind, run_of, run_with
from tests.unit.report.edited import edited

TOO_FEW = "Do not rely on these times: 3 steps are too few; raise `epochs` or `steps`."
CANNOT_TELL = "Cannot tell whether B:a differs from A:a:"
SAME_LOSS = "The loss is the same in all trials: 0.667."


def cells(a: Results, b: Results, trial: str = "B:a") -> dict[str, str]:
    """What the table has of a trial, by header."""
    results, preset = compared(a, b)
    row = [each.name for each in results.trials].index(trial)
    return {column.header: column.cells[row] for column in columns_of(rows_of(results, preset))}


def answer(a: Results, b: Results) -> str:
    """Without what is said of any run of three steps."""
    results, _ = compared(a, b)
    told = [sentence for sentence in answer_of(results) if sentence not in (TOO_FEW, SAME_LOSS)]
    return " ".join(told)


def spoilt(results: Results, *, by_hand: bool = False) -> Results:
    """The same, with every repeat of `a` disturbed by other programs, or changed by hand."""
    change = Change(s=0.0, step=0, steps=3, bottleneck=[])
    spoil: dict[str, Any] = {"changes": [change]} if by_hand else {"warnings": [Caution.OTHER_LOAD]}
    return edited(results, repeat=lambda trial, _: spoil if trial.name == "a" else {})


def test_a_trial_of_b_stands_below_that_of_a_and_then_what_only_one_has() -> None:
    a, b = run_with({"x": (1,), "y": (1,), "z": (1,)}), run_with({"new": (1,), "z": (1,), "x": (1,)})
    results, preset = compared(a, b)
    names = ["A:x", "B:x", "A:y", "A:z", "B:z", "B:new"]
    assert [trial.name for trial in results.trials] == [trial.name for trial in preset.trials] == names
    rows = rows_of(results, preset)
    assert [row.result.summary.ratio is not None for row in rows if row.result.summary] == [1, 1, 0, 1, 1, 0]
    assert [row.difference is not None for row in rows] == [0, 1, 0, 0, 1, 0]


def test_the_ratio_is_b_over_a_and_its_spread_what_any_two_repeats_allow() -> None:
    shown = cells(run_of(100, 120), run_of(300, 360))
    assert (shown["train s"], shown["ratio"], shown["speed-up"]) == ("0.99 ±0.09", "3.00 ±0.60", "0.33")
    assert shown["Δ s"] == "+0.66"
    of_a = cells(run_of(100, 120), run_of(300, 360), "A:a")
    assert (of_a["train s"], of_a["ratio"], of_a["speed-up"]) == ("0.33 ±0.03", "1.00", "1.00")


def test_a_trial_that_failed_was_stopped_or_not_reached_is_called_so_and_has_no_ratio() -> None:
    broken = results_for(two_trials(), failure("a"), journal("b"))
    shown = cells(run_of(100, 200), broken)
    assert (shown["train s"], shown["ratio"], shown["loss"]) == ("failed", "–", "–")
    results, preset = compared(run_of(100, 200), broken)
    assert (results.trials[1].status, preset.repeats) == ("failed", 2)
    assert "Trial B:a failed: see below." in answer_of(results)
    cut = results_for(two_trials(), [*journal("a")[:-3], ended("skipped")])
    assert [cells(run_of(100, 200), cut, trial)["train s"] for trial in ("B:a", "B:b")] == ["stopped", "–"]
    assert compared(run_of(1), cut)[0].status == "interrupted"


def test_times_of_a_disturbed_run_are_marked_and_tell_nothing() -> None:
    a, b = run_of(100, 101), spoilt(run_of(400, 401))
    shown = cells(a, b)
    assert (cells(a, b, "A:a")["train s"], shown["train s"], shown["ratio"]) == (
        "0.30 ±0.00",
        "1.20 ±0.00 ⚠",
        "3.96…4.01 ⚠",
    )
    for first, second in ((a, b), (b, a)):
        assert answer(first, second) == (
            "Cannot tell whether B:a differs from A:a: repeats were disturbed by other programs. "
            "B:b took as long as A:b, as far as 2 repeats can tell."
        )  # fmt: skip
        assert any(ROUGH in line for line in note_lines(*compared(first, second)))


def test_what_a_hand_changed_in_a_has_no_ratio_and_the_note_says_why() -> None:
    changed = spoilt(run_of(100, 101), by_hand=True)
    assert cells(changed, run_of(400, 401))["ratio"] == "–"
    assert "A:a, B:a: no ratio: no repeat is valid both here and in A:a" in note_lines(*compared(changed, run_of(4, 5)))
    assert answer(run_of(400, 401), changed).startswith(
        "Cannot tell whether B:a differs from A:a: repeats were changed by hand"
    )


@pytest.mark.parametrize(
    ("a", "b", "said"),
    [
        (
            {"all_reduce": (100, 104), "ddp": (10, 10.4)},
            {"all_reduce": (130, 134), "ddp": (10.1, 10.5)},
            "B:all_reduce took 1.29 ± 0.05 times as long as A:all_reduce; 90 ms of the extra 90 ms went into own work. "
            "B:ddp took as long as A:ddp, as far as 2 repeats can tell.",
        ),
        (
            {"a": (130, 134)},
            {"a": (100, 104)},
            "B:a took 0.77 ± 0.03 times as long as A:a; 90 ms of the 90 ms saved came from own work.",
        ),
        (
            dict.fromkeys("abcdef", (10, 10)),
            {"a": (20, 20), "b": (21, 21), "c": (30, 30), "d": (25, 25), "e": (19, 19), "f": (5, 5)},
            "B:c took 3.00 ± 0.00 times as long as A:c; 60 ms of the extra 60 ms went into own work; "
            "B:d took 2.50 ± 0.00 times as long as A:d; 45 ms of the extra 45 ms went into own work; "
            "the other trials took roughly 1.90 (B:e) to 2.10 (B:b) times as long as run A. "
            "B:f took 0.50 ± 0.00 times as long as A:f; 15 ms of the 15 ms saved came from own work.",
        ),
        (
            dict.fromkeys("abcde", (100, 101)),
            dict.fromkeys("abcde", (100, 101)),
            "B:a, B:b, B:c, B:d and B:e took as long as run A, as far as 2 repeats can tell.",
        ),
        ({"a": (1000, 1001)}, {"a": (1004, 1005)}, "B:a took as long as A:a, as far as 2 repeats can tell."),
        (
            {"a": (1,), "b": (1,)},
            {"a": (2,), "b": (9,)},
            "Cannot tell for B:a and B:b: one repeat shows no difference between runs; increase `--repeats`.",
        ),
        (
            {"a": (1, 1)},
            {"a": (2,)},
            f"{CANNOT_TELL} one repeat shows no difference between runs; increase `--repeats`.",
        ),
        ({"a": (100, 120)}, {"a": (130, 200)}, f"{CANNOT_TELL} 2 repeats of B:a differ by 42%."),
    ],
)  # fmt: skip
def test_the_answer_names_what_repeats_and_chance_allow(a: Any, b: Any, said: str) -> None:
    assert answer(run_with(a), run_with(b)) == said


def test_repeats_of_two_runs_are_not_taken_in_pairs() -> None:
    """Each repeat of B is slower than that of A with its number by as much; but A alone differs more than that."""
    a, b = run_with({"a": (100, 104, 108)}), run_with({"a": (101, 105, 109)})
    assert "B:a took as long as A:a" in answer(a, b)


def test_a_faster_trial_is_told_only_if_it_differs_by_more_than_its_spread() -> None:
    """Chance does not explain these six repeats of each; but some of A's are as fast as some of B's."""
    a, b = run_with({"a": range(100, 106)}), run_with({"a": range(96, 102)})
    assert answer(a, b) == "B:a took as long as A:a, as far as 6 repeats can tell."


def test_many_trials_make_it_no_more_likely_that_one_seems_to_differ() -> None:
    """Ten of them have about a tenth of a chance to differ as `a` does."""
    alone = {"a": (100, 101)}, {"a": (104, 105)}
    assert answer(*map(run_with, alone)).startswith("B:a took 1.04 ± 0.01 times as long")
    many = [dict(run) | dict.fromkeys("bcdefghij", (10, 10.3)) for run in alone]
    assert answer(*map(run_with, many)).startswith("B:a, B:b, ")


def test_runs_without_a_common_trial_say_so_and_what_to_do() -> None:
    results, preset = compared(run_of(1), run_with({"x": (1,)}, preset="other"))
    assert answer(run_of(1), run_with({"x": (1,)})) == (
        "Nothing to compare: no trial is in both runs; name two runs of the same preset, or match trials by hand: "
        "`ddptui compare A B --match x=y`."
    )
    for said in (text(results, preset, 80), markdown(results, preset)):
        assert "difference: preset: made in A, other in B" in said
        assert "difference: no trial of the other run matches A:a, A:b, B:x" in said
        assert "caution: no ratio, no speed-up: the runs have no trial in common" in said


def both() -> tuple[Results, Preset]:
    return compared(run_of(100, 120), run_of(300, 360, environment={"host": "there"}, run="later"))


def test_the_text_says_which_runs_then_the_answer_the_table_and_what_differs() -> None:
    results, preset = both()
    lines = text(results, preset, 80).splitlines()
    assert lines[0] == "A: the-run, B: later"
    assert lines[2].startswith("B:a took 3.00 ± 0.60 times as long as A:a; 660 ms of the extra 660 ms")
    rows = [line.split()[0] for line in lines if line.startswith(("A:", "B:"))]
    assert rows[-4:] == ["A:a", "B:a", "A:b", "B:b"]
    assert "difference: host: here in A, there in B" in lines
    assert "ratio, speed-up: relative to run A, each repeat with each, since the runs did not take turns" in lines
    same = text(*compared(run_of(1, 1), run_of(1, 1)), 80)
    assert f"difference: {NO_DIFFERENCE}" in same.splitlines()


def test_markdown_json_and_csv_are_those_of_any_run() -> None:
    results, preset = both()
    assert "| B:a | spawn | 2 |" in markdown(results, preset)
    whole = json.loads(as_json(results, preset))
    assert whole["baselines"] == {"A:a": "A:a", "B:a": "A:a", "A:b": "A:b", "B:b": "A:b"}
    assert whole["differences"] == ["host: here in A, there in B"]
    assert whole["environment"] == {"A": {"host": "here"}, "B": {"host": "there"}}
    assert [trial["summary"]["ratio"] for trial in whole["trials"][:2]] == [
        {"median": 1.0, "low": 1.0, "high": 1.0},
        pytest.approx({"median": 3.0, "low": 2.5, "high": 3.6}),
    ]
    kinds = [(finding["kind"], finding.get("trials")) for finding in whole["findings"]]
    assert ("slower", ["B:a"]) in kinds
    assert [(row["trial"], row["repeat"]) for row in csv_rows(results, preset)[:4]] == [
        ("A:a", "1"),
        ("A:a", "2"),
        ("B:a", "1"),
        ("B:a", "2"),
    ]


def measured(*launches: float, **changes: Any) -> Results:
    """An all_reduce of 1 and 4 KB; the larger takes so many µs, by launch."""
    several = [result([cell("all_reduce", 1024, 50), cell("all_reduce", 4096, us)], **changes) for us in launches]
    return of_primitives({"ranks-2": several})[0]


def test_primitives_are_compared_cell_by_cell() -> None:
    results, preset = compared(measured(100), measured(150))
    assert answer_of(results) == [
        "Calls took 1.25 times as long in B as in A at the median of 2 sizes: 1.00 to 1.50 times, most apart in "
        "all_reduce, 4 KB, 2 ranks; one launch shows no difference between runs; increase `--repeats`."
    ]
    lines = text(results, preset, 80).splitlines()
    assert "A:ranks-2: 2 ranks, gloo" in lines
    tables = [of_cells(trial.primitives[0].cells).columns for trial in results.trials]
    assert [{column.header: column.cells for column in table}["ratio"] for table in tables] == [
        ["–", "–"],
        ["1.00", "1.50"],
    ]
    assert [(row["trial"], row["ratio"]) for row in csv_rows(results, preset)] == [
        ("A:ranks-2", ""), ("A:ranks-2", ""), ("B:ranks-2", "1.0"), ("B:ranks-2", "1.5"),
    ]  # fmt: skip
    assert f"difference: {NO_DIFFERENCE}" in lines
    assert "ratio" not in text(measured(100), preset_behind(measured(100)), 200)


def test_several_launches_of_primitives_tell_a_difference_if_it_is_more_than_chance() -> None:
    [said] = answer_of(compared(measured(100, 101), measured(150, 151))[0])
    assert said.endswith("; 1 slower and 0 faster by more than the launches differ.")
    [said] = answer_of(compared(measured(100, 150), measured(151, 220))[0])
    assert said.endswith("; 0 slower and 0 faster by more than the launches differ.")
    results, _ = compared(measured(100, 110), measured(140, 150))
    ratio = results.trials[1].primitives[0].cells[1].ratio
    assert msgspec.to_builtins(ratio) == pytest.approx({"median": 145 / 105, "low": 140 / 110, "high": 1.5})


def test_a_cell_whose_median_stands_for_nothing_is_not_in_the_answer() -> None:
    unsteady = msgspec.structs.replace(cell("all_reduce", 4096, 500).time_us, p90=5000)
    wild = [cell("all_reduce", 1024, 50), cell("all_reduce", 4096, 500, time_us=unsteady)]
    b, _ = of_primitives({"ranks-2": [result(wild)]})
    [said] = answer_of(compared(measured(100), b)[0])
    assert said.startswith("Calls took 1.00 times as long in B as in A: all_reduce, 1 KB, 2 ranks;")


@pytest.mark.parametrize("other", [measured(1, ranks=4), of_primitives({"x": [result([cell("barrier", 0, 1)])]})[0]])
def test_cells_of_other_ranks_or_other_trials_are_not_compared(other: Results) -> None:
    [said] = answer_of(compared(measured(1), other)[0])
    assert said.startswith("Nothing to compare: no timed call of one size is in both runs")


def test_a_training_is_not_compared_with_primitives() -> None:
    primitives = msgspec.structs.replace(measured(1), run="timed")
    for a, b in ((run_of(1), primitives), (primitives, run_of(1))):
        with pytest.raises(RunError, match="timed ran primitives, the other run trained: name two runs of one"):
            compared(a, b)
