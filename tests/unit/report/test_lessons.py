"""The questions of a lesson at the end of the report, with their evidence and the student's answers."""

import pytest

from ddptui.report.lessons import UNANSWERED, asked
from ddptui.report.table import markdown, text
from ddptui.store.presets import LESSONS, load
from tests.support.builders import journal, results_for, two_trials

BOTH = {"text": "Which is slower?", "columns": ["step"]}
ONE = {"text": "Is b in sync?", "columns": ["sync", "ranks"], "trials": ["b"]}
PLAIN = {"text": "What have you learned?"}
PRESET = two_trials(repeats=1, question=[BOTH, ONE, PLAIN])
RESULTS = results_for(PRESET, journal("a", step_ms=30), journal("b", step_ms=70))
ANSWERS = ["b,\n\nby far", "", "  "]


def test_each_question_has_the_cells_of_its_columns_and_trials() -> None:
    evidence = [{column.key: column.cells for column in each.evidence} for each in asked(PRESET, RESULTS, ANSWERS)]
    assert evidence == [
        {"trial": ["a", "b"], "step": ["30.00", "70.00"]},
        {"trial": ["b"], "ranks": ["2"], "sync": ["yes"]},
        {},
    ]


def test_the_text_ends_with_the_questions_and_answers() -> None:
    shown = text(RESULTS, PRESET, 80, answers=ANSWERS)
    begun = text(RESULTS, PRESET, 80)
    assert shown.startswith(begun)
    assert shown[len(begun) :].splitlines() == [
        *["", "Questions", "─────────", ""],
        *["1. Which is slower?", "", "trial  step ms", "──────────────", "a        30.00", "b        70.00", ""],
        *["  b,", "", "  by far", ""],
        *["2. Is b in sync?", "", "trial  ranks  in sync", "─────────────────────", "b          2  yes", ""],
        *[f"  {UNANSWERED}", ""],
        *["3. What have you learned?", "", f"  {UNANSWERED}"],
    ]


def test_markdown_quotes_the_answers() -> None:
    shown = markdown(RESULTS, PRESET, answers=ANSWERS)
    assert "### Questions\n\n#### 1. Which is slower?\n\n| trial | step ms |" in shown
    assert "> b,\n>\n> by far\n\n#### 2." in shown
    assert "### Questions" not in markdown(RESULTS, PRESET)


@pytest.mark.parametrize("name", LESSONS)
def test_a_lesson_has_two_to_four_questions_and_all_its_texts_in_chinese(name: str) -> None:
    preset = load(name)
    assert 2 <= len(preset.questions) <= 4
    texts = [preset.zh.title, preset.zh.about, *(question.zh for question in preset.questions)]
    assert all(any("\u4e00" <= char <= "\u9fff" for char in text) for text in texts)
