"""Two runs as one on the screen: that of any result, or of primitives, with the trials of both."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from ddptui.page.formats import pieces
from ddptui.report.run_diff import NO_DIFFERENCE
from ddptui.run.compare import compare_on_disk
from ddptui.store.runs import Run
from ddptui.tui.screens.primitives import PrimitivesScreen
from ddptui.tui.screens.result import ResultScreen
from ddptui.tui.screens.run import RunScreen
from tests.support.builders import journal, two_trials, write_run
from tests.support.two_runs import run_of
from tests.tui import primitive_recordings
from tests.tui.opened import opened, seen, until
from tests.tui.two_runs import compare_screen

SMALL, SMALLEST = (80, 24), (60, 16)


@pytest.fixture
def two(tmp_path: Path) -> tuple[Run, Run]:
    """Two runs on disk, of which the second is slower."""
    runs = []
    for name, ms in (("20260101-120000-made", 10), ("20260102-120000-made", 30)):
        run = write_run(
            tmp_path, two_trials(repeats=1, question=[{"text": "?"}]), journal("a", step_ms=ms), journal("b")
        )
        runs.append(Run(run.folder.rename(tmp_path / name)))
    return runs[0], runs[1]


def test_the_answer_stands_above_the_table_of_both_and_what_differs_in_the_words(tmp_path: Path) -> None:
    async def scenario() -> None:
        for size in (SMALL, SMALLEST):
            screen = compare_screen(run_of(100, 102), run_of(140, 144, environment={"host": "there"}))
            async with opened(tmp_path, screen, size) as (app, pilot):
                shown = seen(app)
                rows = [shown.index(f"{name} ") for name in ("A:a ◆", "B:a  ", "A:b ◆", "B:b  ")]
                assert rows == sorted(rows)
                assert "1.41 ±0.03" in shown
                await pilot.press("3")
                await until(pilot, lambda: "difference: host: here in A, there in B" in seen(app))

    asyncio.run(scenario())


def test_trials_of_a_are_marked_as_baselines_and_bars_turn_to_differences(tmp_path: Path) -> None:
    async def scenario() -> None:
        screen = compare_screen(run_of(100, 102), run_of(140, 144))
        async with opened(tmp_path, screen, (120, 40)) as (app, pilot):
            shown = seen(app)
            assert ["A:a ◆" in shown, "A:b ◆" in shown, "B:a ◆" in shown] == [True, True, False]
            assert "B:a took 1.41 ± 0.03 times as long as A:a" in " ".join(shown.split())
            await pilot.press("f")
            await until(pilot, lambda: "+0.12 s" in seen(app))

    asyncio.run(scenario())


def test_two_equal_runs_say_that_nothing_differs(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path, compare_screen(run_of(1), run_of(1)), (120, 40)) as (app, _):
            shown = " ".join(seen(app).split())
            assert NO_DIFFERENCE in shown or NO_DIFFERENCE.split(":")[0] in shown
            assert "one repeat shows no difference between runs" in shown

    asyncio.run(scenario())


def test_a_replay_is_of_the_run_whose_trial_is_chosen(two: tuple[Run, Run], tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path, ResultScreen(*compare_on_disk(*two)), (120, 40)) as (app, pilot):
            screen = app.screen
            for trial, name in (("A:b", "20260101-120000-made"), ("B:b", "20260102-120000-made")):
                assert isinstance(screen, ResultScreen)
                screen._table.choose(trial)
                await pilot.pause()
                await pilot.press("v")
                await until(pilot, lambda: isinstance(app.screen, RunScreen))
                assert isinstance(app.screen, RunScreen)
                assert app.screen.feed.run.name == name
                await pilot.press("escape")
                await until(pilot, lambda: app.screen is screen)

    asyncio.run(scenario())


def test_two_runs_are_exported_as_one_is(two: tuple[Run, Run]) -> None:
    both = compare_on_disk(*two)
    assert both[0].name == "20260101-120000-made-and-20260102-120000-made"
    for form in ("html", "svg", "markdown", "csv", "json", "trace"):
        assert "B:a" in "".join(pieces(*both, form))


def test_primitives_of_two_runs_have_their_ratios(tmp_path: Path) -> None:
    async def scenario() -> None:
        results = primitive_recordings.results()
        screen = compare_screen(results, replace(results, run="the-same"))
        async with opened(tmp_path, screen, (120, 40)) as (app, pilot):
            assert isinstance(screen, PrimitivesScreen)
            said = ("B: the-same. Calls took 1.00 times", "at the median of 23 sizes", "Difference: none that was")
            await until(pilot, lambda: all(words in " ".join(seen(app).split()) for words in said))
            await pilot.press("4")  # of two ranks, in run B
            await until(pilot, lambda: "ratio" in seen(app))

    asyncio.run(scenario())


def test_two_runs_ask_no_questions_since_each_has_answers_of_its_own(two: tuple[Run, Run]) -> None:
    assert two[0].preset().questions
    assert not compare_on_disk(*two)[1].questions
