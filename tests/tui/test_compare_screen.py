"""Two runs side by side on the screen: the answer, the table with all its columns, and what else differs."""

import asyncio
from pathlib import Path

from ddptui.report.run_diff.render import NO_DIFFERENCE
from ddptui.tui.screens.compare import CompareScreen
from ddptui.tui.widgets.tables import LabTable
from tests.support.two_runs import run_of
from tests.tui.opened import opened, seen, until
from tests.tui.two_runs import compare_screen

SMALL, SMALLEST = (80, 24), (60, 16)


def compared() -> CompareScreen:
    return compare_screen(run_of(100, 102), run_of(140, 144, environment={"host": "there"}))


def test_the_answer_stands_above_the_table_and_below_it_what_else_differs(tmp_path: Path) -> None:
    async def scenario() -> None:
        for size in (SMALL, SMALLEST):
            async with opened(tmp_path, compared(), size) as (app, _):
                shown = seen(app)
                places = [shown.index(words) for words in ("B was 1.41", "B slower", "host: here in A, there in B")]
                assert places == sorted(places)

    asyncio.run(scenario())


def test_all_columns_can_be_scrolled_to_and_the_border_says_so(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path, compared(), SMALLEST) as (app, pilot):
            assert "← → more" in seen(app)
            assert "0.667 → 0.667" not in seen(app)
            await pilot.press(*["right"] * 26)
            await until(pilot, lambda: "0.667 → 0.667" in seen(app))
            assert "│  a " in seen(app)  # the names stay
            await pilot.resize_terminal(120, 24)
            await until(pilot, lambda: "← → more" not in seen(app))

    asyncio.run(scenario())


def test_help_explains_the_columns(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path, compared()) as (app, pilot):
            await pilot.press("question_mark", "end")
            await until(pilot, lambda: "B's train time over A's: above 1, B was slower." in seen(app))

    asyncio.run(scenario())


def test_a_pane_takes_the_whole_screen_and_gives_it_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path, compared()) as (app, pilot):
            table = app.screen.query_one(LabTable)
            height = table.size.height
            await pilot.press("z")
            assert app.screen.maximized is table
            await until(pilot, lambda: table.size.height > 2 * height)  # all lines but the title and the keys
            await pilot.press("2")
            assert app.screen.maximized is app.screen.focused is app.screen.query_one("#differences")
            await pilot.press("z", "tab")
            assert app.screen.maximized is None
            assert app.screen.focused is table
            await pilot.press("z")
            assert app.screen.maximized is table

    asyncio.run(scenario())


def test_each_format_says_what_a_file_of_a_comparison_holds(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path, compared()) as (app, pilot):
            await pilot.press("x")
            await until(pilot, lambda: "both runs' names, the answer, every figure" in seen(app))
            assert "CSV        one line per trial or primitive" in seen(app)
            assert "results.json" not in seen(app)

    asyncio.run(scenario())


def test_two_equal_runs_say_that_nothing_differs(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path, compare_screen(run_of(1), run_of(1))) as (app, _):
            assert NO_DIFFERENCE in seen(app)
            assert "Cannot tell: one repeat each." in seen(app)

    asyncio.run(scenario())
