"""The screen of the primitives: fed with a recorded run as it goes, as it went, and when it is over."""

import json
import shutil
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.style import Style
from textual.events import AppBlur, AppFocus
from textual.style import Style as VisualStyle
from textual.theme import BUILTIN_THEMES
from textual.widgets import Input, Static

from ddptui.analysis.primitive_results import BufferView, Cell, RankView, View
from ddptui.analysis.results import Results
from ddptui.report.primitive_tables import RANK_KINDS, view_title
from ddptui.run.playback import Playback
from ddptui.store.runs import Run
from ddptui.tui.app import screen_of
from ddptui.tui.screens.base import EndedRun
from ddptui.tui.screens.dialogs import HelpScreen
from ddptui.tui.screens.export import FORMATS
from ddptui.tui.screens.following import Feed
from ddptui.tui.screens.primitives import PrimitivesScreen
from ddptui.tui.screens.result import ResultScreen
from ddptui.tui.screens.run import RunScreen
from ddptui.tui.widgets.buffers import PrimitiveGrid, PrimitiveList, SizePlot
from ddptui.tui.widgets.charts import STYLES
from ddptui.tui.widgets.tables import MARKED, LabTable
from tests.tui import recordings as of_training
from tests.tui.opened import on, opened, seen, shows, tick, toasts, until
from tests.tui.primitive_recordings import RECORDED, at, over, playback
from tests.tui.recordings import Clock, ToldAsItGoes

VIEWS = 23


def on_primitives(feed: Feed, size: tuple[int, int] = (120, 40)) -> AbstractAsyncContextManager[Any]:
    return on(PrimitivesScreen(feed), size)


def replace(
    change: Callable[[View], View] | None = None, cells: Callable[[Cell], Cell] | None = None, **launches: Any
) -> EndedRun:
    """The recorded run, with some of it changed."""
    feed = over()
    trials = [
        msgspec.structs.replace(
            trial,
            primitives=[
                msgspec.structs.replace(
                    launch,
                    views=[*map(change or (lambda view: view), launch.views)],
                    cells=[*map(cells or (lambda cell: cell), launch.cells)],
                    **launches,
                )
                for launch in trial.primitives
            ],
        )
        for trial in feed.results.trials
    ]
    return feed._replace(results=msgspec.structs.replace(feed.results, trials=trials))


def chosen(screen: PrimitivesScreen) -> str | None:
    return screen.query_one(PrimitiveList).chosen


def column(screen: PrimitivesScreen, header: str) -> list[str]:
    columns = screen.query_one("#sizes", LabTable)._filled[0]
    return next([*each.cells] for each in columns if each.header == header)


# Seen


async def test_each_primitive_is_shown_before_its_call_looked_at_after_it_and_told_in_words() -> None:
    async with on_primitives(over()) as (app, pilot, screen):
        await pilot.press("right", "n")
        assert chosen(screen) == "broadcast"
        await shows(pilot, "before the call", "11 12 13 14 →  ·  ·  ·  ·")
        await pilot.press("space")
        await shows(pilot, "after the call", "11 12 13 14 →  1  2  3  4")
        await pilot.press("enter")
        assert "before the call" in seen(app)
        await pilot.press("space", "down")
        assert chosen(screen) == "reduce SUM"
        assert "before the call" in seen(app)
        await pilot.press("left", "p", "p", "p")
        assert chosen(screen) == "send/recv"
        await pilot.press("n", "n", "n")
        await shows(pilot, "The root gets the reduced tensor. Root: rank 0.")
        await shows(pilot, "Undefined on ranks 1, 2 and 3: do not use these values.")
        await pilot.press("p")
        screen.query_one(PrimitiveList).highlighted = 3  # keys may be faster than what follows from them
        screen.action_reveal()
        await pilot.pause()
        assert "63? 66? 72? 76?" in seen(app)


async def test_32_ranks_are_scrolled_to() -> None:
    def crowded(view: View) -> View:
        more = [msgspec.structs.replace(rank, rank=rank.rank + 4 * turn) for turn in range(8) for rank in view.ranks]
        return msgspec.structs.replace(view, ranks=more)

    async with on_primitives(replace(crowded), (80, 24)) as (app, pilot, screen):
        await pilot.press("n", "n", "n")
        await shows(pilot, "every rank: dist.")
        assert "rank 31  tensor" not in seen(app)
        await pilot.press("tab", "G")
        await shows(pilot, "rank 31  tensor")
        assert "every rank: dist." not in seen(app)
        text = screen.query_one(PrimitiveGrid).query_one(Static)  # the scroll bar covers nothing
        assert max(len(line.rstrip()) for line in str(text.render()).splitlines()) <= text.size.width
        await pilot.press("n")
        await shows(pilot, "every rank: dist.")


async def test_a_backend_that_cannot_says_so_in_its_words() -> None:
    def refused(view: View) -> View:
        if view.reduce_op != "avg":
            return view
        ranks = [RankView(rank=0, call="dist.reduce(tensor)", buffers=[])]
        return msgspec.structs.replace(view, ranks=ranks, error="[/] no AVG here \x1b[2J")

    def unmeasured(cell: Cell) -> Cell:
        nothing = {"time_us": None, "cv": None, "algbw_gb_s": None, "busbw_gb_s": None}
        return msgspec.structs.replace(cell, **nothing, error="[/] not here")

    async with on_primitives(replace(refused, unmeasured)) as (app, pilot, screen):
        assert "reduce AVG !" in seen(app)
        await pilot.press(*7 * "n")
        assert chosen(screen) == "reduce AVG"
        assert "The backend cannot: [/] no AVG here [2J" in seen(app)
        assert "dist.reduce" not in seen(app)
        await pilot.press("2")
        assert "The backend cannot: [/] not here" in seen(app)


async def test_in_every_theme_four_ranks_have_four_colours_and_it_goes_on_by_itself_to_the_end() -> None:
    async with on_primitives(over()) as (app, pilot, screen):
        grid = screen.query_one(PrimitiveGrid)

        def style(kind: str) -> Style:
            return (grid.visual_style + VisualStyle.parse(STYLES[kind])).rich_style

        for theme in BUILTIN_THEMES:
            app.theme = theme
            await pilot.pause()
            styles = [style(kind) for kind in RANK_KINDS]
            assert len({style.color for style in styles[:4]}) == 4, theme
            assert [style.color for style in styles[:4]] == [style.color for style in styles[4:]]
            assert all(style.underline for style in styles[4:])
            assert style("reduced").bgcolor != styles[0].bgcolor, theme
            assert style("undefined").strike
        await pilot.press("a")
        assert "playing; a stops it" in seen(app)
        await pilot.press("a")
        assert "playing" not in seen(app)
        await pilot.press("a")
        states = [(chosen(screen), screen.after)]
        while screen._playing is not None:
            screen.play_on()
            states.append((chosen(screen), screen.after))
        names = [view_title(view) for view in screen.feed.results.trials[0].primitives[0].views]
        assert states[:-1] == [(name, after) for name in names for after in (False, True)]
        await pilot.pause()
        assert "playing" not in seen(app)


async def test_without_colours_the_tens_tell_whose_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with on_primitives(over()) as (app, _, _):
        assert "11: rank 1's first" in seen(app)
        assert "11" in app.export_screenshot()


# Measured


async def test_a_table_and_a_plot_of_the_chosen_one_and_of_those_that_are_marked() -> None:
    async with on_primitives(over()) as (app, pilot, screen):
        await pilot.press("2")
        assert "reduce + broadcast" in seen(app)  # composites are called what they are made of
        assert "ring by hand" in seen(app)
        await pilot.press("n")
        assert chosen(screen) == "all_reduce"
        text = seen(app)
        for words in ("median", "busbw", "#wrong", "64 KB", "time over size", "a all_reduce"):
            assert words in text, words
        assert column(screen, "calls") == ["20"] * 4
        await pilot.press("f")
        assert "bus bandwidth, GB/s over size" in seen(app)
        await pilot.press("space", "p", "enter")
        await shows(pilot, "• isend/irecv", "• all_reduce")
        await pilot.press("n", "n", "n", "n")
        assert "a reduce + broadcast  b all_reduce  c isend/irecv" in seen(app)
        await pilot.press("p", "p", "p", "space")
        assert "• all_reduce" not in seen(app)
        assert "b isend/irecv" in seen(app)


async def test_trials_are_gone_through_and_the_chosen_primitive_stays() -> None:
    async with on_primitives(over()) as (_, pilot, screen):
        await pilot.press("t", "n")
        assert (screen.trial.name, chosen(screen)) == ("ranks-2", "all_reduce")
        two = column(screen, "median")
        await pilot.press("t")
        assert (screen.trial.name, chosen(screen)) == ("ranks-4", "all_reduce")
        assert column(screen, "median") != two
        result = screen.query_one(SizePlot)._result
        assert result is not None
        assert result.ranks == 4
        await pilot.press("t")
        assert screen.trial.name == "see"
        await pilot.press("9")
        assert screen.trial.name == "see"


async def test_wrong_elements_are_marked_in_the_list_and_in_red_and_pipelined_calls_are_said_to_be() -> None:
    def spoilt(cell: Cell) -> Cell:
        wrong = 7 if (cell.operation, cell.bytes) == ("all_reduce", 4096) else cell.wrong
        return msgspec.structs.replace(cell, wrong=wrong, in_flight=8)

    feed = replace(cells=spoilt, cadence="pipelined")
    async with on_primitives(feed, (200, 60)) as (app, pilot, screen):
        await pilot.press("2", "n")
        assert "all_reduce !" in seen(app)
        assert column(screen, "#wrong") == ["0", "7", "0", "0"]
        sizes = screen.query_one("#sizes", LabTable)
        red = VisualStyle.parse(MARKED["problem"]).rich_style
        assert [sizes.get_row_at(row)[0].style == red for row in range(4)] == [False, True, False, False]
        assert "all_reduce: every rank gets the reduced tensor (pipelined)" in seen(app)
        assert column(screen, "in flight") == ["8"] * 4


# As it goes


async def test_while_it_goes_on_one_is_led_to_what_is_measured_until_one_chooses() -> None:
    clock = Clock()
    async with on_primitives(ToldAsItGoes(at("ranks-2", 6, clock))) as (app, pilot, screen):
        await pilot.pause()
        assert (screen.trial.name, chosen(screen)) == ("ranks-2", "all_reduce")
        assert "last call: all_reduce, 4 KB · 6 of 21" in seen(app)
        assert len(column(screen, "size")) == 2
        clock.passes(0.2)
        await tick(pilot, screen)
        assert chosen(screen) not in (None, "all_reduce")
        await pilot.press("up")
        stays = chosen(screen)
        clock.passes(1e6)
        await tick(pilot, screen)
        assert (screen.trial.name, chosen(screen)) == ("ranks-2", stays)


async def test_before_anybody_has_told_of_anything_it_says_how_many_are_here() -> None:
    async with on_primitives(ToldAsItGoes(playback())) as (_, pilot, screen):
        await shows(pilot, "starting: 0 of 4 ranks connected", "nothing to show yet")
        await pilot.press("space", "n", "a", "a", "enter")
        await pilot.press("S", "y")
        assert screen.feed.controls.end() == "interrupted"


async def test_when_it_is_over_it_stays_and_is_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    clock = Clock()
    async with on_primitives(ToldAsItGoes(at("ranks-2", 6, clock))) as (app, pilot, screen):
        clock.passes(1e6)
        screen.tick()
        await tick(pilot, screen)  # that it is over is seen once all has been told
        assert [ended.results.status for ended in app.finished.values()] == ["ok"]
        assert "▸ result" in seen(app)
        assert not toasts(app)
        await pilot.press("x", *["down"] * [*FORMATS].index("json"), "enter")
        await until(pilot, lambda: toasts(app))
        [path] = tmp_path.glob("*.json")
        assert toasts(app) == [str(path)]
        assert [trial["name"] for trial in json.loads(path.read_text())["trials"]] == ["see", "ranks-2", "ranks-4"]
        await pilot.press("escape")
        assert app.screen is not screen


def spoilt_run(folder: Path) -> Run:
    """The recorded one, whose last launch failed halfway."""
    shutil.copytree(RECORDED, folder / "run")
    journal = folder / "run" / "trial-ranks-4" / "repeat-1" / "messages.jsonl"
    lines = journal.read_text(encoding="utf-8").splitlines()
    ended = {"type": "Ended", "at_ns": json.loads(lines[-1])["at_ns"], "status": "failed", "error": "rank 1 [/] died"}
    journal.write_text("\n".join([*lines[:40], json.dumps(ended)]) + "\n", encoding="utf-8")
    return Run(folder / "run")


async def test_a_failed_launch_is_complained_of_and_what_was_measured_is_kept_in_sight(tmp_path: Path) -> None:
    clock = Clock()
    run = spoilt_run(tmp_path)
    feed = ToldAsItGoes(Playback(run, run.preset(), clock))
    async with on_primitives(feed) as (app, pilot, screen):
        clock.passes(1e6)
        screen.tick()
        await tick(pilot, screen)
        assert "rank 1 [/] died" in toasts(app)
        assert "failed: ranks-4 (rank 1 [/] died)" in seen(app)
        assert [ended.results.status for ended in app.finished.values()] == ["failed"]
        await pilot.press("3")
        assert column(screen, "size")


async def test_a_trial_that_failed_says_why_there_is_nothing(tmp_path: Path) -> None:
    run = spoilt_run(tmp_path)
    async with on_primitives(of_training.over(run)) as (app, pilot, _):
        assert "died" not in seen(app)
        await pilot.press("3")
        assert "ranks-4 failed: rank 1 [/] died" in seen(app)


# As it went


async def test_a_replay_goes_on_and_back_and_begins_anew() -> None:
    clock = Clock()
    async with on_primitives(at("ranks-2", 6, clock)) as (app, pilot, screen):
        assert "replay × 1" in seen(app)
        await pilot.press("plus", "H")
        assert "replay × 2, paused" in seen(app)
        for _ in range(20):
            await pilot.press("less_than_sign")
        await tick(pilot, screen)
        assert screen.so_far.result("ranks-2") is None
        await pilot.press(*20 * ["greater_than_sign"])
        await tick(pilot, screen)
        assert screen.so_far.result("ranks-4") is not None
        await pilot.press("x", "v")
        assert app.screen is screen
        await pilot.press("escape")
        assert not isinstance(app.screen, PrimitivesScreen)


# Ways here, and help


def test_runs_of_primitives_have_this_screen_and_others_have_theirs() -> None:
    feed, trained = over(), of_training.playback()
    assert isinstance(screen_of(playback()), PrimitivesScreen)
    assert isinstance(screen_of(trained), RunScreen)
    assert isinstance(screen_of(feed), PrimitivesScreen)
    assert isinstance(screen_of(EndedRun(trained.run, trained.preset, trained.results)), ResultScreen)


async def test_help_has_the_keys_that_mean_something_now() -> None:
    async with on_primitives(over(), (120, 60)) as (app, pilot, _):
        await pilot.press("question_mark")
        assert isinstance(app.screen, HelpScreen)
        text = seen(app)
        assert "Show the buffers after the call" in text
        assert "Export" in text
        assert "Stop the run" not in text
        assert "Replay faster" not in text
        assert "bus bandwidth" not in text
        assert "Columns" not in text
        await pilot.press("escape", "2", "question_mark")
        assert "Plot the time, or the bus bandwidth" in seen(app)
        await pilot.press("end")
        await shows(pilot, "Size of the tensor, with all parts")


async def test_on_a_small_terminal_all_that_one_needs_is_seen_at_once() -> None:
    async with on_primitives(over(), (120, 40)) as (app, pilot, screen):
        now = screen.query_one("#now", Static)
        await until(pilot, lambda: now.display)
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: not now.display)  # buffers have all lines
        for key, words in (("1", "space Look"), ("2", "f Plot")):
            await pilot.press(key)
            footer = seen(app).splitlines()[-1]
            assert all(each in footer for each in (words, "x Export", "v Replay", "esc Back", "n Next"))
        await until(pilot, lambda: now.display)
        assert str(now.content).startswith("11 primitives ran on 4 ranks over gloo")  # its first sentence
        assert "busbw  #wrong" in seen(app)
        await pilot.press("1")
        await until(pilot, lambda: not now.display)
        screen.query_one(PrimitiveList).highlighted = 0
        await pilot.pause()
        grid = screen.query_one(PrimitiveGrid)
        for number in range(VIEWS):
            for _ in range(2):
                await pilot.press("space")
                assert grid.max_scroll_y == 0, chosen(screen)
                assert grid.max_scroll_x == 0, chosen(screen)
                assert grid.query_one(Static).size.height <= grid.scrollable_content_region.height
            await pilot.press("n")
            assert number + 1 == VIEWS or chosen(screen) == view_title(
                screen.feed.results.trials[0].primitives[0].views[number + 1]
            )


async def test_any_size_will_do() -> None:
    async with on_primitives(over()) as (_, pilot, screen):
        for key, pane in (("1", "#grid"), ("2", "#plot")):
            for size in ((1, 1), (60, 16), (80, 24), (200, 60)):
                await pilot.press(key, "space", "n")
                await pilot.resize_terminal(*size)
                await pilot.press("p", "space", "f")
                if size[0] >= 60:
                    assert screen.query_one(pane).region.area
        await pilot.press("C")  # there are no losses
        assert screen.is_current


async def test_a_run_without_anything_in_it_can_be_looked_at() -> None:
    nothing: Results = msgspec.structs.replace(
        over().results,
        trials=[
            msgspec.structs.replace(trial, status="skipped", primitives=[], command=[])
            for trial in over().results.trials
        ],
    )
    async with on_primitives(over()._replace(results=nothing)) as (app, pilot, _):
        assert "see was not reached" in seen(app)
        await pilot.press("space", "n", "2", "space", "f", "t", "a")


async def test_names_are_shown_as_they_are() -> None:
    def rude(view: View) -> View:
        buffers = [BufferView(name="[/]\x1b", parts=1, before=[1.0], after=[1.0], undefined=False)]
        return msgspec.structs.replace(view, ranks=[RankView(rank=0, call="[bold]\x1b[2J", buffers=buffers)])

    async with on_primitives(replace(rude)) as (app, pilot, screen):
        await shows(pilot, "[/]", "[bold][2J")
        assert "\x1b" not in seen(app)
        now = screen.query_one("#now", Static)
        await until(pilot, lambda: now.display)
        question, said = "What does each primitive do, and how long does it take? ", "11 primitives ran on 4 ranks over"
        assert str(now.content).startswith(question + said)


async def test_the_path_of_an_export_can_be_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    async with on_primitives(over()) as (app, pilot, _):
        for number, typed in enumerate(["~/nowhere/x.json", "nowhere/x.json", "~nobody-of-this-name/x.json"], start=1):
            await pilot.press("x")
            app.screen.query_one(Input).value = typed
            await pilot.press("tab", "enter")
            await until(pilot, lambda number=number: len(toasts(app)) == number)
            assert toasts(app)[-1] == f"{tmp_path / typed.removeprefix('~/')}: No such file or directory"


async def test_the_list_takes_keys_although_the_screen_opened_in_the_background(tmp_path: Path) -> None:
    async with opened(tmp_path) as (app, pilot):
        app.post_message(AppBlur())
        await until(pilot, lambda: not app.app_focus)
        await app.push_screen(PrimitivesScreen(over()))
        app.post_message(AppFocus())
        await until(pilot, lambda: app.app_focus)
        assert app.screen.focused is app.screen.query_one(PrimitiveList)
