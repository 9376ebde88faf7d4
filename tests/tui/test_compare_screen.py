"""Two runs side by side on the screen: the answer, the table with all its columns, and what else differs."""

import asyncio
import json
from pathlib import Path

from msgspec.structs import replace

from ddptui.report.run_diff.render import NO_DIFFERENCE
from ddptui.tui.screens.compare import CompareScreen
from ddptui.tui.screens.match import MatchDialog
from ddptui.tui.widgets.lists import Chooser
from ddptui.tui.widgets.tables import LabTable
from tests.support.builders import journal, preset_of, results_for
from tests.support.two_runs import run_of, run_with
from tests.tui import primitive_recordings
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


def test_primitives_are_compared_by_size(tmp_path: Path) -> None:
    async def scenario() -> None:
        results = primitive_recordings.results()
        async with opened(tmp_path, compare_screen(results, replace(results, run="the-same"))) as (app, _):
            words = ("at the median of 23 cells", "operation            size   A median", "ring by hand         1 KB")
            assert all(each in seen(app) for each in words)

    asyncio.run(scenario())


# Trials matched by hand


def renamed() -> CompareScreen:
    """Nothing has a common name; `x` and `u` have the same settings, as all have."""
    return compare_screen(run_with({"x": (10, 10), "y": (10, 10)}), run_with({"u": (20, 20), "v": (20, 20)}))


def test_runs_without_a_common_name_open_with_the_dialog(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path, renamed()) as (app, pilot):
            await until(pilot, lambda: isinstance(app.screen, MatchDialog))
            await until(pilot, lambda: "x | u" in seen(app) and "y | v" in seen(app))
            assert "Their settings are the same." in seen(app)
            await pilot.press("enter")
            await until(pilot, lambda: "B was slower than A in x | u (2.00 ± 0.00 times) and y | v" in seen(app))
            assert "only in" not in seen(app)
            assert app.screen.focused is app.screen.query_one(LabTable)

    asyncio.run(scenario())


def test_without_a_match_it_says_what_to_do(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path, renamed()) as (app, pilot):
            await until(pilot, lambda: isinstance(app.screen, MatchDialog))
            await pilot.press("escape")
            assert isinstance(app.screen, CompareScreen)
            assert "match trials by hand: `m` in the console" in " ".join(seen(app).split())

    asyncio.run(scenario())


def test_m_matches_trials_by_keys_and_the_export_speaks_of_the_pair(tmp_path: Path) -> None:
    async def scenario() -> None:
        screen = compared()
        async with opened(tmp_path, screen) as (app, pilot):
            await pilot.press("m")
            await until(pilot, lambda: isinstance(app.screen, MatchDialog))
            assert "a | a" in seen(app)
            await pilot.press("right")  # the next one, b
            await until(pilot, lambda: "a | b !" in seen(app) and "b | b !" in seen(app))
            assert "b: matched more than once." in seen(app)
            await pilot.press("enter")
            assert isinstance(app.screen, MatchDialog)  # it does not take that
            await pilot.press("down", "space")  # after the last one, none
            await until(pilot, lambda: "b | none" in seen(app) and "Compared with none." in seen(app))
            await pilot.press("left", "left")
            await until(pilot, lambda: "b | a" in seen(app))
            await pilot.press("enter")
            await until(pilot, lambda: "a | b" in seen(app) and "b | a" in seen(app) and app.screen is screen)
            await pilot.press("m")
            await until(pilot, lambda: isinstance(app.screen, MatchDialog) and "a | b" in seen(app))
            assert "a | a" not in seen(app)  # as it was left
            [exported] = screen.text_in("json")
            assert [row["trial"] for row in json.loads(exported)["rows"]] == ["a | b", "b | a"]
            assert all("a | b" in "".join(screen.text_in(form)) for form in ("csv", "html"))

    asyncio.run(scenario())


def test_the_mouse_turns_to_the_next_trial_of_b(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path, compared()) as (app, pilot):
            await pilot.press("m")
            await until(pilot, lambda: isinstance(app.screen, MatchDialog))
            await pilot.click(Chooser, offset=(3, 1))
            await until(pilot, lambda: "b | none" in seen(app))

    asyncio.run(scenario())


def test_settings_that_differ_are_said_and_names_are_cut(tmp_path: Path) -> None:
    async def scenario() -> None:
        long = "a-name-that-is-much-longer-than-the-dialog-has-room-for"
        a = results_for(preset_of({"trial": [{"name": long, "epochs": 1}]}), journal(long))
        b = results_for(preset_of({"trial": [{"name": f"{long}-b"}]}), journal(f"{long}-b"))
        async with opened(tmp_path, compare_screen(a, b), SMALLEST) as (app, pilot):
            await until(pilot, lambda: isinstance(app.screen, MatchDialog))
            await pilot.press("right")
            await until(pilot, lambda: "Their settings differ in epochs." in seen(app))
            assert "a-name-that-is-much-lon… | a-name-that-is-much-lo" in seen(app)

    asyncio.run(scenario())


def test_many_trials_leave_room_for_the_keys(tmp_path: Path) -> None:
    async def scenario() -> None:
        many = run_with({f"t{number}": (1,) for number in range(30)})
        async with opened(tmp_path, compare_screen(many, many), SMALLEST) as (app, pilot):
            await pilot.press("m", "end")
            await until(pilot, lambda: "t29 | t29" in seen(app) and "enter compare  esc cancel" in seen(app))

    asyncio.run(scenario())
