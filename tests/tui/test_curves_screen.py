"""The curves of all trials in one chart: which figure, over what, which trials, read in a thread."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from ddptui.run.compare import compare_on_disk
from ddptui.store.outcomes import results_of
from ddptui.store.runs import Run
from ddptui.tui.app import Console
from ddptui.tui.screens import curves as curves_screen
from ddptui.tui.screens.base import EndedRun
from ddptui.tui.screens.curves import CurvesScreen
from ddptui.tui.screens.primitives import PrimitivesScreen
from ddptui.tui.screens.result import ResultScreen
from ddptui.tui.widgets.line_chart import LineChart
from ddptui.tui.widgets.lists import Chooser
from tests.support.builders import failure, journal, preset_of, two_trials, write_run
from tests.tui import primitive_recordings
from tests.tui.opened import opened, seen, toasts, until

SIZES = [(60, 16), (80, 24), (120, 40), (200, 60)]
Scenario = Callable[[Console, Pilot[int], CurvesScreen], Awaitable[None]]


def ended(run: Run) -> EndedRun:
    preset = run.preset()
    return EndedRun(run, preset, results_of(run, preset))


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Trials a and b, two repeats each; a step of b takes longer."""
    told = [journal("a", 1, steps=40), journal("a", 2, steps=40)]
    told += [journal("b", number, steps=40, step_ms=25) for number in (1, 2)]
    return write_run(tmp_path / "runs", two_trials(), *told)


def play(screen: CurvesScreen, scenario: Scenario, size: tuple[int, int] = (120, 40)) -> None:
    async def whole() -> None:
        async with opened(Path("nowhere"), screen, size) as (app, pilot):
            await app.workers.wait_for_complete()
            await pilot.pause()
            await scenario(app, pilot, screen)

    asyncio.run(whole())


def drawn(screen: CurvesScreen) -> list[str]:
    """The trials whose lines are in the chart."""
    return [series.name for series in screen.query_one(LineChart)._series]


def title(screen: CurvesScreen) -> str:
    return str(screen.query_one(LineChart).border_title)


@pytest.mark.parametrize("size", SIZES)
def test_all_trials_show_with_the_figures_of_the_table(run: Run, size: tuple[int, int]) -> None:
    async def scenario(app: Console, pilot: Pilot[int], screen: CurvesScreen) -> None:
        for words in ("Loss, mean over ranks", "✓ 1━ a", "✓ 2━ b"):
            assert words in seen(app)
        for words in ("step 0", "40", "Trials: loss at the end", "0.052"):
            assert words in seen(app)

    play(CurvesScreen(ended(run)), scenario, size)


def test_f_turns_to_the_step_time_and_back(run: Run) -> None:
    async def scenario(app: Console, pilot: Pilot[int], screen: CurvesScreen) -> None:
        await pilot.press("f")
        assert title(screen) == "Step time in ms, median over up to 4 steps of all ranks"
        assert {value for _, value in screen.query_one(LineChart)._series[1].points} == {25.0}
        await until(pilot, lambda: "Trials: step ms" in seen(app) and "25.00" in seen(app))
        await pilot.press("f")
        assert title(screen) == "Loss, mean over ranks"

    play(CurvesScreen(ended(run)), scenario)


def test_the_axis_shows_steps_or_seconds(run: Run) -> None:
    async def scenario(app: Console, pilot: Pilot[int], screen: CurvesScreen) -> None:
        await pilot.press("X")
        await until(pilot, lambda: "1.1 s" in seen(app) and "step 0" not in seen(app))
        for figure in range(2):
            ends = [series.points[-1][0] for series in screen.query_one(LineChart)._series]
            assert ends == pytest.approx([0.5, 1.1], rel=0.1), figure
            await pilot.press("f")
        await pilot.press("X")
        await until(pilot, lambda: "step 0" in seen(app))

    play(CurvesScreen(ended(run)), scenario)


def test_both_figures_may_have_a_logarithmic_scale(run: Run) -> None:
    async def scenario(app: Console, pilot: Pilot[int], screen: CurvesScreen) -> None:
        await pilot.press("L")
        await until(pilot, lambda: "log scale" in seen(app))
        await pilot.press("f")
        await until(pilot, lambda: "log scale" in seen(app))
        await pilot.press("L")
        await until(pilot, lambda: "log scale" not in seen(app))

    play(CurvesScreen(ended(run)), scenario)


def test_trials_are_put_in_and_out_by_keys(run: Run) -> None:
    async def scenario(app: Console, pilot: Pilot[int], screen: CurvesScreen) -> None:
        await pilot.press("space")
        assert drawn(screen) == ["b"]
        await until(pilot, lambda: "  1━ a" in seen(app))
        await pilot.press("down", "space")
        assert drawn(screen) == []
        await until(pilot, lambda: "no steps to show" in seen(app))
        await pilot.press("enter")
        assert drawn(screen) == ["b"]
        await pilot.press("enter")
        assert drawn(screen) == ["a", "b"]

    play(CurvesScreen(ended(run)), scenario)


def test_trials_are_put_in_and_out_by_the_mouse(run: Run) -> None:
    async def scenario(app: Console, pilot: Pilot[int], screen: CurvesScreen) -> None:
        for expected in (["a"], ["a", "b"]):
            await pilot.click(Chooser, offset=(5, 2))  # the border, then a
            await until(pilot, lambda expected=expected: drawn(screen) == expected)

    play(CurvesScreen(ended(run)), scenario)


def test_the_trial_under_the_cursor_lies_over_the_others(run: Run) -> None:
    async def scenario(app: Console, pilot: Pilot[int], screen: CurvesScreen) -> None:
        chart = screen.query_one(LineChart)
        assert chart._top == 0
        await pilot.press("j")
        await until(pilot, lambda: chart._top == 1)
        await pilot.press("k", "space", "j")  # the only one that is left
        await until(pilot, lambda: chart._top == 0 and drawn(screen) == ["b"])

    play(CurvesScreen(ended(run)), scenario)


def test_a_chart_on_the_whole_screen_has_the_legend_itself(run: Run) -> None:
    async def scenario(app: Console, pilot: Pilot[int], screen: CurvesScreen) -> None:
        assert "1━ a 0.052" not in seen(app)
        await pilot.press("z")
        await until(pilot, lambda: "1━ a 0.052  2━ b 0.052" in seen(app) and "Trials: " not in seen(app))
        await pilot.press("space")
        assert drawn(screen) == ["b"]
        await pilot.press("escape")
        await until(pilot, lambda: "Trials: " in seen(app) and "2━ b 0.052" not in seen(app))
        assert app.screen is screen

    play(CurvesScreen(ended(run)), scenario, (80, 24))


def test_without_colors_and_in_each_theme_lines_are_told_apart(run: Run) -> None:
    async def scenario(app: Console, pilot: Pilot[int], screen: CurvesScreen) -> None:
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

    play(CurvesScreen(ended(run)), scenario)


# Reading


def test_the_screen_shows_at_once_and_each_trial_once_it_is_read(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    read = curves_screen.curves_of
    released = {"a": threading.Event(), "b": threading.Event()}

    def late(run: Run, trial: Any, is_wanted: Any) -> Any:
        released[trial.name].wait()
        return read(run, trial, is_wanted)

    monkeypatch.setattr(curves_screen, "curves_of", late)

    async def scenario() -> None:
        async with opened(Path("nowhere"), CurvesScreen(ended(run))) as (app, pilot):
            assert "reading the steps …" in seen(app)
            assert "reading 1 of 2 …" in seen(app)
            released["a"].set()
            await until(pilot, lambda: "reading 2 of 2 …" in seen(app))
            assert "step 0" in seen(app)
            assert "…" in next(line for line in seen(app).splitlines() if "2━ b" in line)
            released["b"].set()
            await until(pilot, lambda: "reading" not in seen(app))

    asyncio.run(scenario())


def test_what_is_left_is_not_read_to_its_end(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, over, wanted = threading.Event(), threading.Event(), list[bool]()

    def endless(run: Run, trial: Any, is_wanted: Callable[[], bool]) -> Any:
        begun.set()
        while is_wanted():
            over.wait(0.01)
        wanted.append(False)
        over.set()
        return curves_screen.TrialCurves()

    monkeypatch.setattr(curves_screen, "curves_of", endless)

    async def scenario() -> None:
        async with opened(Path("nowhere"), CurvesScreen(ended(run))) as (_, pilot):
            await until(pilot, begun.is_set)
            await pilot.press("escape")
            await until(pilot, over.is_set)

    asyncio.run(scenario())
    assert wanted == [False]


def test_a_journal_that_cannot_be_read_is_said_and_the_others_show(run: Run) -> None:
    shown = ended(run)
    broken = run.repeat_folder("a", 1) / "messages.jsonl"
    broken.unlink()
    broken.mkdir()

    async def scenario(app: Console, pilot: Pilot[int], screen: CurvesScreen) -> None:
        assert any("cannot be read" in toast for toast in toasts(app))
        assert "no step recorded" in next(line for line in seen(app).splitlines() if "1━ a" in line)
        assert [bool(series.points) for series in screen.query_one(LineChart)._series] == [False, True]

    play(CurvesScreen(shown), scenario)


def test_a_trial_that_failed_says_so(tmp_path: Path) -> None:
    *begun, end = failure("b")
    steps = [message for message in journal("b") if hasattr(message, "loss")]
    run = write_run(tmp_path / "runs", two_trials(repeats=1), journal("a"), [*begun, *steps, end])

    async def scenario(app: Console, pilot: Pilot[int], screen: CurvesScreen) -> None:
        assert "failed" in next(line for line in seen(app).splitlines() if "2━ b" in line)
        assert [len(series.points) for series in screen.query_one(LineChart)._series] == [4, 4]

    play(CurvesScreen(ended(run)), scenario)


def test_a_run_without_instruments_says_that_there_is_no_step(run: Run) -> None:
    shown = ended(run)
    for trial in "ab":
        for number in (1, 2):
            (run.repeat_folder(trial, number) / "messages.jsonl").unlink()

    async def scenario(app: Console, pilot: Pilot[int], screen: CurvesScreen) -> None:
        assert "no steps to show" in seen(app)

    play(CurvesScreen(shown), scenario)


@pytest.mark.parametrize("size", SIZES)
def test_many_trials_can_be_scrolled_through(tmp_path: Path, size: tuple[int, int]) -> None:
    names = [f"trial-{number}" for number in range(40)]
    preset = preset_of({"repeats": 1, "trial": [{"name": name} for name in names]})
    run = write_run(tmp_path / "runs", preset, *map(journal, names))

    async def scenario(app: Console, pilot: Pilot[int], screen: CurvesScreen) -> None:
        assert len(drawn(screen)) == 40
        await pilot.press("end", "enter")
        assert drawn(screen) == ["trial-39"]
        await until(pilot, lambda: "✓  ━ trial-39" in seen(app))

    play(CurvesScreen(ended(run)), scenario, size)


# Where it opens


def test_it_opens_from_a_result_and_goes_back(run: Run) -> None:
    async def scenario() -> None:
        screen = ResultScreen(*ended(run))
        async with opened(Path("nowhere"), screen) as (app, pilot):
            for back in ("C", "escape"):
                await pilot.press("C")
                await until(pilot, lambda: isinstance(app.screen, CurvesScreen))
                await until(pilot, lambda: "✓ 2━ b" in seen(app))
                assert "▸ curves" in seen(app)
                await pilot.press(back)
                assert app.screen is screen

    asyncio.run(scenario())


def test_two_runs_are_in_one_chart(run: Run, tmp_path: Path) -> None:
    other = write_run(tmp_path / "others", two_trials(), journal("a"), journal("a", 2))

    async def scenario() -> None:
        screen = ResultScreen(*compare_on_disk(run, other))
        async with opened(Path("nowhere"), screen) as (app, pilot):
            await pilot.press("C")
            await until(pilot, lambda: isinstance(app.screen, CurvesScreen))
            await app.workers.wait_for_complete()
            curves = app.screen
            assert isinstance(curves, CurvesScreen)
            assert drawn(curves) == ["A:a", "B:a", "A:b", "B:b"]

    asyncio.run(scenario())


def test_primitives_have_no_losses_and_so_no_such_key() -> None:
    async def scenario() -> None:
        async with opened(Path("nowhere"), PrimitivesScreen(primitive_recordings.over())) as (app, pilot):
            await pilot.press("C")
            assert isinstance(app.screen, PrimitivesScreen)

    asyncio.run(scenario())
