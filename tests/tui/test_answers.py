"""The dialog in which the questions of a lesson are answered: nothing that is typed is lost."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from textual.pilot import Pilot
from textual.widgets import Button, TextArea

from ddptui.config.preset import LessonQuestion
from ddptui.store.overview import results_of
from ddptui.store.runs import ANSWERS, Run
from ddptui.tui.app import Console
from ddptui.tui.screens import export
from ddptui.tui.screens.base import EndedRun
from ddptui.tui.screens.dialogs import Question as AskingDialog
from ddptui.tui.screens.export import AnswersDialog
from ddptui.tui.screens.primitives import PrimitivesScreen
from ddptui.tui.screens.result import ResultScreen
from tests.support.builders import journal, two_trials, write_run
from tests.tui import primitive_recordings
from tests.tui.opened import on, opened, seen, shows, toasts, until

FIRST, SECOND = "Which trial took longer?", "Is [b] in sync?"
QUESTIONS = [{"text": FIRST, "columns": ["step"]}, {"text": SECOND, "trials": ["b"], "columns": ["ranks"]}]


def answered(run: Run) -> list[str]:
    return run.answers(run.preset())


@asynccontextmanager
async def on_lesson(
    runs: Path, size: tuple[int, int] = (120, 40), questions: object = QUESTIONS, keys: str = "A"
) -> AsyncIterator[tuple[Console, Pilot[int], Run]]:
    """The result of a lesson of two trials, after these keys."""
    preset = two_trials(repeats=1, question=questions)
    run = write_run(runs, preset, journal("a", step_ms=30), journal("b", step_ms=70))
    async with opened(runs, ResultScreen(run, preset, results_of(run, preset)), size) as (app, pilot):
        await pilot.press(*keys)
        yield app, pilot, run


async def test_questions_are_answered_one_by_one_with_room_for_all_at_each_size_and_shown_again(tmp_path: Path) -> None:
    async with on_lesson(tmp_path) as (app, pilot, run):
        for size in ((60, 16), (80, 24), (200, 60), (120, 40)):
            await pilot.resize_terminal(*size)
            assert all(words in seen(app) for words in (FIRST, "30.00", export.IN_OWN_WORDS, "Close (esc)"))
        assert all(words in seen(app) for words in (FIRST, "70.00"))
        await pilot.press("b", "?", "enter", "A", "pagedown")
        assert [words in seen(app) for words in (SECOND, "70.00")] == [True, False]
        await pilot.press("q", "escape")
        assert answered(run) == ["b?\nA", "q"]
        assert "2 questions, 2 answered: A answers them" in seen(app)
        await pilot.press("A")
        assert FIRST in seen(app)
        assert app.screen.query_one(TextArea).text == "b?\nA"
        await pilot.press("!", "pageup", "ctrl+s")
        assert answered(run) == ["b?\nA!", "q"]


async def test_the_mouse_does_all_of_it(tmp_path: Path) -> None:
    async with on_lesson(tmp_path) as (app, pilot, run):
        _, forward, close = app.screen.query(Button)
        await pilot.click(forward)
        await pilot.press("y")
        await pilot.click(close)
        assert not isinstance(app.screen, AnswersDialog)
        await pilot.press("A", "x")
        await pilot.click(offset=(0, 0))  # beside the dialog
        assert not isinstance(app.screen, AnswersDialog)
    assert answered(run) == ["x", "y"]


async def test_what_is_typed_is_saved_meanwhile_and_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "SAVED_EVERY_S", 0.05)
    async with on_lesson(tmp_path) as (_, pilot, run):
        await pilot.press("y", "e", "s")
        await until(pilot, lambda: answered(run) == ["yes", ""])
        await pilot.press("n", "o", "ctrl+q")
    assert answered(run) == ["yesno", ""]


async def test_a_run_that_cannot_be_written_to_keeps_the_text_in_the_dialog(tmp_path: Path) -> None:
    async with on_lesson(tmp_path) as (app, pilot, run):
        shutil.rmtree(run.folder)
        await pilot.press("y", "e", "s", "pagedown")
        assert "Not saved: the run can no longer be saved in" in seen(app).replace("\n", " ")
        await pilot.press("pageup", "escape")
        assert isinstance(app.screen, AskingDialog)
        await pilot.press("escape")
        assert app.screen.query_one(TextArea).text == "yes"
        await pilot.press("escape", "y")
        assert isinstance(app.screen, ResultScreen)


async def test_damaged_answers_are_not_written_over(tmp_path: Path) -> None:
    async with on_lesson(tmp_path, keys="") as (app, pilot, run):
        (run.folder / ANSWERS).write_text("{")
        await pilot.press("A")
        assert isinstance(app.screen, ResultScreen)
        assert f"{ANSWERS}: cannot be read" in toasts(app)[0]
        assert (run.folder / ANSWERS).read_text() == "{"


async def test_a_preset_without_questions_has_no_key_for_them(tmp_path: Path) -> None:
    async with on_lesson(tmp_path, questions=[]) as (app, _, run):
        assert isinstance(app.screen, ResultScreen)
        assert "A Answer" not in seen(app)
        assert not (run.folder / ANSWERS).exists()


async def test_primitives_are_asked_about_when_they_are_over(tmp_path: Path) -> None:
    ended = primitive_recordings.over()
    shutil.copytree(ended.run.folder, tmp_path / "run")
    preset = msgspec.structs.replace(ended.preset, questions=(LessonQuestion(text=FIRST),))
    async with on(PrimitivesScreen(EndedRun(Run(tmp_path / "run"), preset, ended.results))) as (app, pilot, _):
        await shows(pilot, "A Answer")
        assert "1 question, 0 answered" in " ".join(seen(app).split())
        await pilot.press("A", "o", "k", "escape")
    assert Run(tmp_path / "run").answers(preset) == ["ok"]
