"""The curves of all trials in one chart: which figure, over what, which trials, read in a thread."""

import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from textual.pilot import Pilot

from ddptui.page.formats import pieces
from ddptui.run.compare import compare_on_disk
from ddptui.store.runs import Run
from ddptui.tui.app import Console
from ddptui.tui.screens import curves as curves_screen
from ddptui.tui.screens.base import EndedRun
from ddptui.tui.screens.curves import CurvesScreen
from ddptui.tui.screens.primitives import PrimitivesScreen
from ddptui.tui.screens.result import ResultScreen
from ddptui.tui.screens.run import RunScreen
from ddptui.tui.widgets.charts import LineChart
from ddptui.tui.widgets.lists import Chooser
from tests.support.builders import failure, journal, preset_of, two_trials, write_run
from tests.support.two_runs import run_of
from tests.tui import primitive_recordings
from tests.tui.opened import on, opened, seen, shows, toasts, until
from tests.tui.recordings import over
from tests.tui.two_runs import compare_screen


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Trials a and b, two repeats each; a step of b takes longer."""
    told = [journal("a", 1, steps=40), journal("a", 2, steps=40)]
    told += [journal("b", number, steps=40, step_ms=25) for number in (1, 2)]
    return write_run(tmp_path / "runs", two_trials(), *told)


@asynccontextmanager
async def on_curves(
    run: EndedRun, size: tuple[int, int] = (120, 40)
) -> AsyncIterator[tuple[Console, Pilot[int], CurvesScreen]]:
    """The screen, when all curves are read."""
    async with on(CurvesScreen(run), size) as (app, pilot, screen):
        await app.workers.wait_for_complete()
        await pilot.pause()
        yield app, pilot, screen


def drawn(screen: CurvesScreen) -> list[str]:
    """The trials whose lines are in the chart."""
    return [series.name for series in screen.query_one(LineChart)._series]


def title(screen: CurvesScreen) -> str:
    return str(screen.query_one(LineChart).border_title)


async def test_all_trials_show_with_the_figures_of_the_table_and_on_the_whole_screen_with_a_legend(run: Run) -> None:
    async with on_curves(over(run)) as (app, pilot, screen):
        for size in ((60, 16), (200, 60), (80, 24)):
            await pilot.resize_terminal(*size)
            for words in ("Loss, mean over ranks", "✓ 1━ a", "✓ 2━ b", "step 0", "40"):
                assert words in seen(app)
            assert "Trials: loss at the end" in seen(app)
            assert "0.052" in seen(app)
        assert "1━ a 0.052" not in seen(app)
        await pilot.press("z")
        await until(pilot, lambda: "1━ a 0.052  2━ b 0.052" in seen(app) and "Trials: " not in seen(app))
        await pilot.press("space")
        assert drawn(screen) == ["b"]
        await pilot.press("escape")
        await until(pilot, lambda: "Trials: " in seen(app) and "2━ b 0.052" not in seen(app))
        assert app.screen is screen


async def test_keys_turn_to_the_step_time_to_seconds_to_a_logarithmic_scale_and_put_trials_in_and_out(run: Run) -> None:
    async with on_curves(over(run)) as (app, pilot, screen):
        await pilot.press("f")
        assert title(screen) == "Step time in ms, median over up to 4 steps of all ranks"
        assert {value for _, value in screen.query_one(LineChart)._series[1].points} == {25.0}
        await until(pilot, lambda: "Trials: step ms" in seen(app) and "25.00" in seen(app))
        await pilot.press("f")
        assert title(screen) == "Loss, mean over ranks"
        await pilot.press("X")
        await until(pilot, lambda: "1.1 s" in seen(app) and "step 0" not in seen(app))
        for figure in range(2):
            ends = [series.points[-1][0] for series in screen.query_one(LineChart)._series]
            assert ends == pytest.approx([0.5, 1.1], rel=0.1), figure
            await pilot.press("f")
        await pilot.press("X")
        await shows(pilot, "step 0")
        await pilot.press("L")
        await shows(pilot, "log scale")
        await pilot.press("f")
        await shows(pilot, "log scale")
        await pilot.press("L")
        await until(pilot, lambda: "log scale" not in seen(app))
        await pilot.press("f")
        await pilot.press("space")
        assert drawn(screen) == ["b"]
        await shows(pilot, "  1━ a")
        await pilot.press("down", "space")
        assert drawn(screen) == []
        await shows(pilot, "no steps to show")
        await pilot.press("enter")
        assert drawn(screen) == ["b"]
        await pilot.press("enter")
        assert drawn(screen) == ["a", "b"]


async def test_lines_are_told_apart_without_colors_and_in_each_theme(run: Run) -> None:
    async with on_curves(over(run)) as (app, pilot, screen):
        for theme in ("textual-light", "ansi-dark", "ansi-light", "textual-dark"):
            app.theme = theme
            await pilot.pause()
            inside = [line.partition("│")[2] for line in seen(app).splitlines() if "│" in line]
            drawing = "".join(line[:70].partition("│")[2] for line in inside)
            assert "1" in drawing
            assert "2" in drawing
            texts = [span.text.strip() for strip in app.screen._compositor.render_strips() for span in strip]
            marked = [text for text in texts if "1━" in text or "2━" in text]
            assert marked == ["✓ 1━ a", "2━"]  # on the row of the cursor, no color of its own
        for expected in (["a"], ["a", "b"]):
            await pilot.click(Chooser, offset=(5, 2))  # the border, then a
            await until(pilot, lambda expected=expected: drawn(screen) == expected)
        await pilot.press("k")
        chart = screen.query_one(LineChart)
        await until(pilot, lambda: chart._top == 0)
        await pilot.press("j")
        await until(pilot, lambda: chart._top == 1)
        await pilot.press("k", "space", "j")  # the only one that is left
        await until(pilot, lambda: chart._top == 0 and drawn(screen) == ["b"])


# Reading


async def test_each_trial_shows_once_it_is_read(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    read = curves_screen.curves_of
    released = {"a": threading.Event(), "b": threading.Event()}

    def late(run: Run, trial: Any, is_wanted: Any) -> Any:
        released[trial.name].wait()
        return read(run, trial, is_wanted)

    monkeypatch.setattr(curves_screen, "curves_of", late)
    async with opened(Path("nowhere"), CurvesScreen(over(run))) as (app, pilot):
        await shows(pilot, "reading the steps …", "reading 1 of 2 …")
        released["a"].set()
        await shows(pilot, "reading 2 of 2 …", "step 0")
        assert "…" in next(line for line in seen(app).splitlines() if "2━ b" in line)
        released["b"].set()
        await until(pilot, lambda: "reading" not in seen(app))


async def test_what_is_left_is_not_read_to_its_end(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, stopped, wanted = threading.Event(), threading.Event(), list[bool]()

    def endless(run: Run, trial: Any, is_wanted: Callable[[], bool]) -> Any:
        begun.set()
        while is_wanted():
            stopped.wait(0.01)
        wanted.append(False)
        stopped.set()
        return curves_screen.TrialCurves()

    monkeypatch.setattr(curves_screen, "curves_of", endless)
    async with opened(Path("nowhere"), CurvesScreen(over(run))) as (_, pilot):
        await until(pilot, begun.is_set)
        await pilot.press("escape")
        await until(pilot, stopped.is_set)
    assert wanted == [False]


async def test_a_journal_that_cannot_be_read_is_said_and_the_others_show(run: Run) -> None:
    shown = over(run)
    broken = run.repeat_folder("a", 1) / "messages.jsonl"
    broken.unlink()
    broken.mkdir()
    async with on_curves(shown) as (app, _, screen):
        assert any("cannot be read" in toast for toast in toasts(app))
        assert "no step recorded" in next(line for line in seen(app).splitlines() if "1━ a" in line)
        assert [bool(series.points) for series in screen.query_one(LineChart)._series] == [False, True]


async def test_a_trial_that_failed_says_so(tmp_path: Path) -> None:
    *begun, end = failure("b")
    steps = [message for message in journal("b") if hasattr(message, "loss")]
    run = write_run(tmp_path / "runs", two_trials(repeats=1), journal("a"), [*begun, *steps, end])
    async with on_curves(over(run)) as (app, _, screen):
        assert "failed" in next(line for line in seen(app).splitlines() if "2━ b" in line)
        assert [len(series.points) for series in screen.query_one(LineChart)._series] == [4, 4]


async def test_a_run_without_instruments_says_that_there_is_no_step(run: Run) -> None:
    shown = over(run)
    for trial in "ab":
        for number in (1, 2):
            (run.repeat_folder(trial, number) / "messages.jsonl").unlink()
    async with on_curves(shown) as (app, _, _):
        assert "no steps to show" in seen(app)


async def test_many_trials_can_be_scrolled_through(tmp_path: Path) -> None:
    names = [f"trial-{number}" for number in range(20)]
    preset = preset_of({"repeats": 1, "trial": [{"name": name} for name in names]})
    run = write_run(tmp_path / "runs", preset, *map(journal, names))
    async with on_curves(over(run), (60, 16)) as (_, pilot, screen):
        assert len(drawn(screen)) == 20
        await pilot.press("end", "enter")
        assert drawn(screen) == ["trial-19"]
        await shows(pilot, "✓ k━ trial-19")


# Where it opens


async def test_it_opens_from_a_result_and_goes_back(run: Run) -> None:
    async with on(ResultScreen(*over(run))) as (app, pilot, screen):
        for back in ("C", "escape"):
            await pilot.press("C")
            await until(pilot, lambda: isinstance(app.screen, CurvesScreen))
            await shows(pilot, "✓ 2━ b", "▸ curves")
            await pilot.press(back)
            assert app.screen is screen


async def test_two_runs_are_in_one_chart(run: Run, tmp_path: Path) -> None:
    other = write_run(tmp_path / "others", two_trials(), journal("a"), journal("a", 2))
    async with on(ResultScreen(*compare_on_disk(run, other))) as (app, pilot, _):
        await pilot.press("C")
        await until(pilot, lambda: isinstance(app.screen, CurvesScreen))
        await app.workers.wait_for_complete()
        curves = app.screen
        assert isinstance(curves, CurvesScreen)
        assert drawn(curves) == ["A:a", "B:a", "A:b", "B:b"]


@pytest.fixture
def two(tmp_path: Path) -> tuple[Run, Run]:
    """Two runs on disk, of which the second is slower."""
    runs = []
    preset = two_trials(repeats=1, question=[{"text": "?"}])
    for name, ms in (("20260101-120000-made", 10), ("20260102-120000-made", 30)):
        run = write_run(tmp_path, preset, journal("a", step_ms=ms), journal("b"))
        runs.append(Run(run.folder.rename(tmp_path / name)))
    return runs[0], runs[1]


async def test_the_table_of_both_has_the_trials_of_a_as_baselines_and_what_differs_is_in_the_words() -> None:
    screen = compare_screen(run_of(100, 102), run_of(140, 144, environment={"host": "there"}))
    async with on(screen) as (app, pilot, _):
        assert "B:a took 1.41 ± 0.03 times as long as A:a" in " ".join(seen(app).split())
        await pilot.press("f")
        await shows(pilot, "+0.12 s")
        for size in ((80, 24), (60, 16)):
            await pilot.resize_terminal(*size)
            await pilot.press("1")
            shown = seen(app)
            rows = [shown.index(f"{name} ") for name in ("A:a ◆", "B:a  ", "A:b ◆", "B:b  ")]
            assert rows == sorted(rows)
            assert "1.41 ±0.03" in shown
            await pilot.press("3")
            await shows(pilot, "difference: host: here in A, there in B")


async def test_a_replay_is_of_the_run_whose_trial_is_chosen(two: tuple[Run, Run]) -> None:
    async with on(ResultScreen(*compare_on_disk(*two))) as (app, pilot, screen):
        for trial, name in (("A:b", "20260101-120000-made"), ("B:b", "20260102-120000-made")):
            screen._table.choose(trial)
            await pilot.pause()
            await pilot.press("v")
            await until(pilot, lambda: isinstance(app.screen, RunScreen))
            assert app.screen.feed.run.name == name
            await pilot.press("escape")
            await until(pilot, lambda: app.screen is screen)


def test_two_runs_are_exported_as_one_is(two: tuple[Run, Run]) -> None:
    both = compare_on_disk(*two)
    assert both[0].name == "20260101-120000-made-and-20260102-120000-made"
    for form in ("html", "svg", "markdown", "csv", "json", "trace"):
        assert "B:a" in "".join(pieces(*both, form))


async def test_primitives_of_two_runs_have_their_ratios() -> None:
    results = primitive_recordings.over().results
    async with on(compare_screen(results, replace(results, run="the-same"))) as (app, pilot, screen):
        assert isinstance(screen, PrimitivesScreen)
        said = ("B: the-same. Calls took 1.00 times", "at the median of 23 sizes", "Difference: none that was")
        await until(pilot, lambda: all(words in " ".join(seen(app).split()) for words in said))
        await pilot.press("4")  # of two ranks, in run B
        await shows(pilot, "ratio")


def test_two_runs_ask_no_questions_since_each_has_answers_of_its_own(two: tuple[Run, Run]) -> None:
    assert two[0].preset().questions
    assert not compare_on_disk(*two)[1].questions
