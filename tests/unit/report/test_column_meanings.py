"""Columns explain themselves, a preset's are dropped last; what a table says of a preset; the questions of a lesson."""

import pytest

from ddptui.analysis.results import RankResult, Results, TrialResult
from ddptui.cli import explained
from ddptui.config.fields import MEANINGS
from ddptui.config.preset import Preset
from ddptui.report.columns import COLUMNS, columns_of
from ddptui.report.preset_columns import differs, facts
from ddptui.report.rows import rows_of
from ddptui.report.table import UNANSWERED, markdown, text
from ddptui.store.presets import LESSONS, load
from tests.support.builders import journal, preset_of, results_for, two_trials
from tests.support.printed import header_of
from tests.unit.report.edited import edited


def test_every_column_has_a_key_and_a_sentence_and_the_listing_has_all_of_them() -> None:
    assert [column.key for column in COLUMNS] == [*MEANINGS]
    for column in (column for columns in explained.TABLES.values() for column in columns):
        assert column.about.endswith("."), column.header
        assert len(column.about.split()) <= 45, column.header
    lines = explained.listing().splitlines()
    for column in COLUMNS:
        assert column.key in [line.split("  ")[0] for line in lines]
    assert "wait caused" in lines
    assert max(map(len, lines)) <= explained.WIDTH


def test_a_column_is_told_with_its_table_and_an_unknown_one_is_refused() -> None:
    told = explained.entries("wait").splitlines()
    assert [line for line in told if line.endswith(":")] == [
        "Columns that compare trials; a preset's `columns` takes their keys:",
        "Columns of the table of ranks; empty if not known:",
        "Columns of a projection:",
    ]
    assert [line for line in told if line.startswith("wait")] == ["wait  (wait ms)", "wait", "wait"]
    with pytest.raises(LookupError, match="no column '¿'; `ddptui columns` lists them"):
        explained.entries("¿")


def ran(**fields: object) -> tuple[Results, Preset]:
    preset = two_trials(repeats=1, **fields)
    return results_for(preset, journal("a"), journal("b", step_ms=400)), preset


def test_a_wanted_column_is_dropped_last_and_what_rounds_to_nothing_has_no_sign() -> None:
    assert "start s" not in header_of(text(*ran(), 50))
    assert "start s" in header_of(text(*ran(columns=["startup"]), 50))
    preset = two_trials(repeats=1)
    results = results_for(preset, journal("a"), journal("b", step_ms=9.999))
    columns = {column.key: column.cells for column in columns_of(rows_of(results, preset))}
    assert columns["delta"][1] == "0.00"


def test_the_parts_of_a_difference_add_up_and_the_baseline_has_none() -> None:
    """Of trial b, rank 0 waited 0.9 s for rank 1, and 0.1 s were transfer."""

    def figures(trial: TrialResult, rank: RankResult) -> dict[str, object]:
        wait = 0.9 if rank.rank == 0 else 0.1
        told = {"wait_s": wait, "exposed_s": wait + 0.1, "work_s": {"forward": 1.0 - wait}}
        return told if trial.name == "b" else {}

    results, preset = ran()
    results = edited(results, rank=figures)
    columns = {column.key: column.cells for column in columns_of(rows_of(results, preset))}
    delta, *parts = (columns[key][1] for key in ("delta", "delta_work", "delta_wait", "delta_transfer", "delta_rest"))
    took = [trial.summary.train_time_s.median for trial in results.trials if trial.summary]
    assert float(delta) == pytest.approx(took[1] - took[0], abs=0.006)
    assert sum(map(float, parts)) == pytest.approx(float(delta), abs=0.02)
    assert columns["delta_wait"][1] == "+0.50"  # the mean of both ranks: neither is the culprit
    assert columns["delta_transfer"][1] == "+0.10"
    assert columns["delta_delay"][1] == "–"
    assert {columns[key][0] for key in columns if key.startswith("delta")} == {"–"}


def test_what_differs_comes_first_and_what_says_nothing_is_left_out() -> None:
    shown = facts(preset_of({"matrix": {"world_size": [1, 2]}, "defaults": {"model": "mlp", "depth": 1, "width": 8}}))
    assert [fact.header for fact in shown] == [
        "trial", "ranks", "launch", "strategy", "model", "data", "batch", "length",
    ]  # fmt: skip
    assert shown[0].cells == ["world_size-1", "world_size-2"]
    assert [fact.header for fact in shown[1:] if differs(fact)] == ["ranks"]
    assert {fact.header: fact.cells[0] for fact in shown}["model"] == "mlp 1×8"


def test_fields_that_differ_delays_and_lengths_are_spelled_out() -> None:
    trials = [{"name": "a", "sched_batch": True}, {"name": "b", "bucket_mb": 2, "strategy": "ddp"}]
    cells = {fact.header: tuple(fact.cells) for fact in facts(preset_of({"trial": trials}))}
    assert cells["sched_batch"] == ("true", "false")
    assert cells["bucket_mb"] == ("–", "2.0")
    assert "seed" not in cells
    delay = {"at": "aggregate", "ranks": [1], "sleep_ms": 10}
    trials = [{"name": "a", "bottleneck": [delay], "steps": 9}, {"name": "b", "epochs": 1}]
    cells = {fact.header: tuple(fact.cells) for fact in facts(preset_of({"trial": trials}))}
    assert cells["bottleneck"] == ("aggregate 10 ms on 1", "–")
    assert cells["length"] == ("9 steps", "1 epoch")
    trials = [{"name": "a", "epochs": 0}, {"name": "b", "steps": 9}]
    cells = {fact.header: tuple(fact.cells) for fact in facts(preset_of({"trial": trials}))}
    assert cells["length"] == ("until stopped", "9 steps")


BOTH = {"text": "Which is slower?", "columns": ["step"]}
ONE = {"text": "Is b in sync?", "columns": ["sync", "ranks"], "trials": ["b"]}
PLAIN = {"text": "What have you learned?"}
LESSON = two_trials(repeats=1, question=[BOTH, ONE, PLAIN])
OF_LESSON = results_for(LESSON, journal("a", step_ms=30), journal("b", step_ms=70))
ANSWERS = ["b,\n\nby far", "", "  "]


def test_a_report_ends_with_the_questions_and_answers() -> None:
    shown = text(OF_LESSON, LESSON, 80, answers=ANSWERS)
    begun = text(OF_LESSON, LESSON, 80)
    assert shown.startswith(begun)
    assert shown[len(begun) :].splitlines() == [
        *["", "Questions", "─────────", ""],
        *["1. Which is slower?", "", "trial  step ms", "──────────────", "a        30.00", "b        70.00", ""],
        *["  b,", "", "  by far", ""],
        *["2. Is b in sync?", "", "trial  ranks  in sync", "─────────────────────", "b          2  yes", ""],
        *[f"  {UNANSWERED}", ""],
        *["3. What have you learned?", "", f"  {UNANSWERED}"],
    ]
    page = markdown(OF_LESSON, LESSON, answers=ANSWERS)
    assert "### Questions\n\n#### 1. Which is slower?\n\n| trial | step ms |" in page
    assert "> b,\n>\n> by far\n\n#### 2." in page
    assert "### Questions" not in markdown(OF_LESSON, LESSON)


@pytest.mark.parametrize("name", LESSONS)
def test_a_lesson_has_two_to_four_questions_and_all_its_texts_in_chinese(name: str) -> None:
    preset = load(name)
    assert 2 <= len(preset.questions) <= 4
    texts = [preset.zh.title, preset.zh.about, *(question.zh for question in preset.questions)]
    assert all(any("\u4e00" <= char <= "\u9fff" for char in text) for text in texts)
    assert preset.zh.about.count("\n\n") == preset.about.count("\n\n")  # no paragraph is left out
