"""The screen of the primitives: fed with a recorded run as it goes, as it went, and when it is over."""

import asyncio
import json
import shutil
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.style import Style
from textual.events import AppBlur, AppFocus
from textual.pilot import Pilot
from textual.style import Style as VisualStyle
from textual.theme import BUILTIN_THEMES
from textual.widgets import Input, Static

from ddptui.analysis.primitives.results import BufferView, Cell, RankView, View
from ddptui.analysis.results import Results
from ddptui.report.primitives.buffers import RANK_KINDS, view_title
from ddptui.store.runs import Run
from ddptui.text.tables import Filled
from ddptui.tui.app import Console, screen_of
from ddptui.tui.screens.base import EndedRun
from ddptui.tui.screens.dialogs import HelpScreen, Question
from ddptui.tui.screens.export import FORMATS
from ddptui.tui.screens.primitives import PrimitivesScreen
from ddptui.tui.screens.result import ResultScreen
from ddptui.tui.screens.run import RunScreen
from ddptui.tui.widgets.canvas import STYLES, Canvas
from ddptui.tui.widgets.primitive_times import SizePlot
from ddptui.tui.widgets.primitives import PrimitiveGrid, PrimitiveList
from ddptui.tui.widgets.tables import MARKED, LabTable
from ddptui.wire.records import Ended, Message, Notice
from tests.tui import recordings as of_training
from tests.tui.opened import opened, seen, toasts, until
from tests.tui.primitive_recordings import RECORDED, at, over, playback, results
from tests.tui.recordings import Clock, ToldAsItGoes

SIZES = [(80, 24), (120, 40), (200, 60)]
VIEWS = 23
Scenario = Callable[[Console, Pilot[int], PrimitivesScreen], Coroutine[None, None, None]]


def play(
    scenario: Scenario, screen: PrimitivesScreen, size: tuple[int, int] = (120, 40), runs: Path = Path("none")
) -> None:
    async def played() -> None:
        async with opened(runs, screen, size) as (app, pilot):
            screen.tick()
            await pilot.pause()
            await scenario(app, pilot, screen)

    asyncio.run(played())


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


def columns(screen: PrimitivesScreen) -> list[Filled]:
    return screen.query_one("#sizes", LabTable)._filled[0]


def column(screen: PrimitivesScreen, header: str) -> list[str]:
    return next([*each.cells] for each in columns(screen) if each.header == header)


# Seen


def test_each_primitive_is_shown_before_its_call_and_looked_at_after_it() -> None:
    async def scenario(app: Console, pilot: Pilot[int], screen: PrimitivesScreen) -> None:
        await pilot.press("right", "n")
        assert chosen(screen) == "broadcast"
        assert "before the call" in seen(app)
        assert "11 12 13 14 →  ·  ·  ·  ·" in seen(app)
        await pilot.press("space")
        assert "after the call" in seen(app)
        assert "11 12 13 14 →  1  2  3  4" in seen(app)
        await pilot.press("enter")
        assert "before the call" in seen(app)
        await pilot.press("space", "down")
        await pilot.pause()
        assert chosen(screen) == "reduce SUM"
        assert "before the call" in seen(app)
        await pilot.press("left", "p", "p", "p")
        assert chosen(screen) == "send/recv"

    play(scenario, PrimitivesScreen(over()))


def test_keys_may_be_faster_than_what_follows_from_them() -> None:
    async def scenario(app: Console, pilot: Pilot[int], screen: PrimitivesScreen) -> None:
        screen.query_one(PrimitiveList).highlighted = 3
        screen.action_reveal()
        await pilot.pause()
        assert "63? 66? 72? 76?" in seen(app)

    play(scenario, PrimitivesScreen(over()))


def test_what_it_does_and_what_is_undefined_is_said_in_words() -> None:
    async def scenario(app: Console, pilot: Pilot[int], screen: PrimitivesScreen) -> None:
        await pilot.press("n", "n", "n")
        assert "The root gets the reduced tensor. Root: rank 0." in seen(app)
        assert "Undefined on ranks 1, 2 and 3: do not use these values." in seen(app)

    play(scenario, PrimitivesScreen(over()))


def test_on_a_small_terminal_four_ranks_are_seen_at_once_before_and_after_each_call() -> None:
    async def scenario(app: Console, pilot: Pilot[int], screen: PrimitivesScreen) -> None:
        grid = screen.query_one(PrimitiveGrid)
        for number in range(VIEWS):
            for _ in range(2):
                await pilot.press("space")
                await pilot.pause()
                assert grid.max_scroll_y == 0, chosen(screen)
                assert grid.max_scroll_x == 0, chosen(screen)
                assert grid.query_one(Static).size.height <= grid.scrollable_content_region.height
            await pilot.press("n")
            assert number + 1 == VIEWS or chosen(screen) == view_title(
                screen.feed.results.trials[0].primitives[0].views[number + 1]
            )

    play(scenario, PrimitivesScreen(over()), (80, 24))


def doubled(view: View) -> View:
    more = [msgspec.structs.replace(rank, rank=rank.rank + 4) for rank in view.ranks]
    return msgspec.structs.replace(view, ranks=[*view.ranks, *more])


def test_32_ranks_are_scrolled_to() -> None:
    def crowded(view: View) -> View:
        more = [msgspec.structs.replace(rank, rank=rank.rank + 4 * turn) for turn in range(8) for rank in view.ranks]
        return msgspec.structs.replace(view, ranks=more)

    async def scenario(app: Console, pilot: Pilot[int], screen: PrimitivesScreen) -> None:
        await pilot.press("n", "n", "n")
        await pilot.pause()
        assert "every rank: dist." in seen(app)
        assert "rank 31  tensor" not in seen(app)
        await pilot.press("tab", "G")
        await pilot.pause()
        assert "every rank: dist." not in seen(app)
        assert "rank 31  tensor" in seen(app)
        await pilot.press("n")
        await pilot.pause()
        assert "every rank: dist." in seen(app)

    play(scenario, PrimitivesScreen(replace(crowded)), (80, 24))


def test_a_scrollbar_covers_nothing() -> None:
    async def scenario(app: Console, pilot: Pilot[int], screen: PrimitivesScreen) -> None:
        text = screen.query_one(PrimitiveGrid).query_one(Static)
        for _ in range(VIEWS):
            await pilot.press("space")
            await pilot.pause()
            assert max(len(line.rstrip()) for line in str(text.render()).splitlines()) <= text.size.width
            await pilot.press("n")

    play(scenario, PrimitivesScreen(replace(doubled)), (80, 24))


def test_a_backend_that_cannot_says_so_in_its_words() -> None:
    def refused(view: View) -> View:
        if view.reduce_op != "avg":
            return view
        ranks = [RankView(rank=0, call="dist.reduce(tensor)", buffers=[])]
        return msgspec.structs.replace(view, ranks=ranks, error="[/] no AVG here \x1b[2J")

    async def scenario(app: Console, pilot: Pilot[int], screen: PrimitivesScreen) -> None:
        assert "reduce AVG !" in seen(app)
        await pilot.press(*7 * "n")
        assert chosen(screen) == "reduce AVG"
        assert "The backend cannot: [/] no AVG here [2J" in seen(app)
        assert "dist.reduce" not in seen(app)

    play(scenario, PrimitivesScreen(replace(refused)))


def test_it_goes_on_by_itself_to_the_end_and_stops_there() -> None:
    async def scenario(app: Console, pilot: Pilot[int], screen: PrimitivesScreen) -> None:
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

    play(scenario, PrimitivesScreen(over()))


def test_four_ranks_have_four_colours_in_every_theme_and_the_next_four_are_underlined() -> None:
    async def scenario(app: Console, pilot: Pilot[int], screen: PrimitivesScreen) -> None:
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

    play(scenario, PrimitivesScreen(over()))


def test_without_colours_the_tens_tell_whose_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    async def scenario(app: Console, pilot: Pilot[int], screen: PrimitivesScreen) -> None:
        assert "11: rank 1's first" in seen(app)
        assert "11" in app.export_screenshot()

    play(scenario, PrimitivesScreen(over()))


# Measured


def test_a_table_and_a_plot_of_the_chosen_one() -> None:
    async def scenario(app: Console, pilot: Pilot[int], screen: PrimitivesScreen) -> None:
        await pilot.press("2", "n")
        await pilot.pause()
        assert chosen(screen) == "all_reduce"
        text = seen(app)
        for words in ("median", "busbw", "#wrong", "64 KB", "time over size", "a all_reduce"):
            assert words in text, words
        assert column(screen, "calls") == ["20"] * 4
        await pilot.press("f")
        assert "bus bandwidth, GB/s over size" in seen(app)

    play(scenario, PrimitivesScreen(over()))


def test_calls_that_are_pipelined_are_said_to_be() -> None:
    def several(cell: Cell) -> Cell:
        return msgspec.structs.replace(cell, in_flight=8)

    async def scenario(app: Console, pilot: Pilot[int], screen: PrimitivesScreen) -> None:
        await pilot.press("2", "n")
        await pilot.pause()
        assert "all_reduce: every rank gets the reduced tensor (pipelined)" in seen(app)
        assert column(screen, "in flight") == ["8"] * 4

    play(scenario, PrimitivesScreen(replace(cells=several, cadence="pipelined")), (200, 60))


def test_composites_are_called_what_they_are_made_of() -> None:
    async def scenario(app: Console, pilot: Pilot[int], screen: PrimitivesScreen) -> None:
        await pilot.press("2")
        assert "reduce + broadcast" in seen(app)
        assert "ring by hand" in seen(app)

    play(scenario, PrimitivesScreen(over()))


def test_what_is_marked_stays_in_the_plot() -> None:
    async def scenario(app: Console, pilot: Pilot[int], screen: PrimitivesScreen) -> None:
        await pilot.press("2", "n", "space", "p", "enter")
        assert "• isend/irecv" in seen(app)
        assert "• all_reduce" in seen(app)
        await pilot.press("n", "n", "n", "n")
        assert "a reduce + broadcast  b all_reduce  c isend/irecv" in seen(app)
        await pilot.press("p", "p", "p", "space")
        assert "• all_reduce" not in seen(app)
        assert "b isend/irecv" in seen(app)

    play(scenario, PrimitivesScreen(over()), (120, 40))


def test_trials_are_gone_through_and_the_chosen_primitive_stays() -> None:
    async def scenario(app: Console, pilot: Pilot[int], screen: PrimitivesScreen) -> None:
        await pilot.press("t", "n")
        assert (screen.trial.name, chosen(screen)) == ("ranks-2", "all_reduce")
        two = column(screen, "median")
        await pilot.press("t")
        await pilot.pause()
        assert (screen.trial.name, chosen(screen)) == ("ranks-4", "all_reduce")
        assert column(screen, "median") != two
        await pilot.press("t")
        assert screen.trial.name == "see"
        await pilot.press("9")
        assert screen.trial.name == "see"

    play(scenario, PrimitivesScreen(over()))


def test_wrong_elements_are_marked_in_the_list_and_in_red() -> None:
    def spoilt(cell: Cell) -> Cell:
        return msgspec.structs.replace(cell, wrong=7) if (cell.operation, cell.bytes) == ("all_reduce", 4096) else cell

    async def scenario(app: Console, pilot: Pilot[int], screen: PrimitivesScreen) -> None:
        await pilot.press("2", "n")
        await pilot.pause()
        assert "all_reduce !" in seen(app)
        assert column(screen, "#wrong") == ["0", "7", "0", "0"]
        sizes = screen.query_one("#sizes", LabTable)
        red = VisualStyle.parse(MARKED["problem"]).rich_style
        assert [sizes.get_row_at(row)[0].style == red for row in range(4)] == [False, True, False, False]

    play(scenario, PrimitivesScreen(replace(cells=spoilt)))


def test_what_the_backend_cannot_measure_is_said() -> None:
    def refused(cell: Cell) -> Cell:
        return msgspec.structs.replace(
            cell, time_us=None, cv=None, algbw_gb_s=None, busbw_gb_s=None, error="[/] not here"
        )

    async def scenario(app: Console, pilot: Pilot[int], screen: PrimitivesScreen) -> None:
        await pilot.press("2")
        await pilot.pause()
        assert "The backend cannot: [/] not here" in seen(app)

    play(scenario, PrimitivesScreen(replace(cells=refused)))


# As it goes


def test_while_it_goes_on_one_is_led_to_what_is_measured_until_one_chooses() -> None:
    clock = Clock()

    async def scenario(app: Console, pilot: Pilot[int], screen: PrimitivesScreen) -> None:
        await pilot.pause()
        assert (screen.trial.name, chosen(screen)) == ("ranks-2", "all_reduce")
        assert "all_reduce, 16 KB · 6 of 21" in seen(app)
        assert len(column(screen, "size")) == 2
        clock.passes(0.2)
        screen.tick()
        await pilot.pause()
        assert chosen(screen) not in (None, "all_reduce")
        await pilot.press("up")
        await pilot.pause()
        stays = chosen(screen)
        clock.passes(1e6)
        screen.tick()
        await pilot.pause()
        assert (screen.trial.name, chosen(screen)) == ("ranks-2", stays)

    play(scenario, PrimitivesScreen(ToldAsItGoes(at("ranks-2", 6, clock))))


def test_a_trial_that_was_chosen_is_not_left_when_the_next_one_begins() -> None:
    clock = Clock()

    async def scenario(app: Console, pilot: Pilot[int], screen: PrimitivesScreen) -> None:
        await pilot.press("1")
        clock.passes(1e6)
        screen.tick()
        await pilot.pause()
        assert screen.trial.name == "see"

    play(scenario, PrimitivesScreen(ToldAsItGoes(at("ranks-2", 6, clock))))


def test_before_anybody_has_told_of_anything_it_says_how_many_are_here() -> None:
    async def scenario(app: Console, pilot: Pilot[int], screen: PrimitivesScreen) -> None:
        assert "starting: 0 of 4 ranks connected" in seen(app)
        assert "nothing to show yet" in seen(app)
        await pilot.press("space", "n", "a", "a", "enter")

    play(scenario, PrimitivesScreen(ToldAsItGoes(playback())))


async def confirm(pilot: Pilot[int], key: str, answer: str) -> None:
    await pilot.press(key)
    await pilot.pause()
    await pilot.press(answer)
    await pilot.pause()


def test_stopping_and_skipping_ask() -> None:
    async def scenario(app: Console, pilot: Pilot[int], screen: PrimitivesScreen) -> None:
        controls = screen.feed.controls  # type: ignore[union-attr]
        assert controls is not None
        await pilot.press("S")
        assert isinstance(app.screen, Question)
        await pilot.press("escape")
        assert controls.end() is None
        await confirm(pilot, "s", "y")
        assert controls.end() == "skipped"
        await confirm(pilot, "escape", "y")
        assert controls.end() == "interrupted"
        assert isinstance(app.screen, PrimitivesScreen)

    play(scenario, PrimitivesScreen(ToldAsItGoes(at("ranks-2", 6))))


def test_when_it_is_over_it_stays_and_the_same_keys_do_what_is_left_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    clock = Clock()

    async def scenario(app: Console, pilot: Pilot[int], screen: PrimitivesScreen) -> None:
        clock.passes(1e6)
        screen.tick()
        screen.tick()  # that it is over is seen once all has been told
        await pilot.pause()
        assert [ended.results.status for ended in app.finished.values()] == ["ok"]
        assert "▸ result" in seen(app)
        assert not toasts(app)
        await pilot.press("x", *["down"] * [*FORMATS].index("json"), "enter")
        await until(pilot, lambda: toasts(app))
        [path] = tmp_path.glob("*.json")
        assert toasts(app) == [str(path)]
        assert [trial["name"] for trial in json.loads(path.read_text())["trials"]] == ["see", "ranks-2", "ranks-4"]
        await pilot.press("escape")
        await pilot.pause()
        assert app.screen is not screen

    play(scenario, PrimitivesScreen(ToldAsItGoes(at("ranks-2", 6, clock))))


def spoilt_run(folder: Path) -> Run:
    """The recorded one, whose last launch failed halfway."""
    shutil.copytree(RECORDED, folder / "run")
    journal = folder / "run" / "trial-ranks-4" / "repeat-1" / "messages.jsonl"
    lines = journal.read_text(encoding="utf-8").splitlines()
    ended = {"type": "Ended", "at_ns": json.loads(lines[-1])["at_ns"], "status": "failed", "error": "rank 1 [/] died"}
    journal.write_text("\n".join([*lines[:40], json.dumps(ended)]) + "\n", encoding="utf-8")
    return Run(folder / "run")


def test_a_failed_launch_is_complained_of_and_what_was_measured_is_kept_in_sight(tmp_path: Path) -> None:
    from ddptui.run.playback import Playback

    clock = Clock()
    run = spoilt_run(tmp_path)
    feed = ToldAsItGoes(Playback(run, run.preset(), clock))

    async def scenario(app: Console, pilot: Pilot[int], screen: PrimitivesScreen) -> None:
        clock.passes(1e6)
        screen.tick()
        screen.tick()
        await pilot.pause()
        assert "rank 1 [/] died" in toasts(app)
        assert "failed: ranks-4 (rank 1 [/] died)" in seen(app)
        assert [ended.results.status for ended in app.finished.values()] == ["failed"]
        await pilot.press("3")
        assert column(screen, "size")

    play(scenario, PrimitivesScreen(feed))


class LeavesAJob(ToldAsItGoes):
    def drain(self) -> list[Message]:
        runs, left = (Notice(at_ns=1, text=f"job 17 {text}") for text in ("runs", "may be left"))
        messages = super().drain()
        if messages and isinstance(messages[-1], Ended):
            messages[-1:] = [runs, messages[-1], left]
        return messages


def test_a_job_that_may_be_left_is_complained_of_once_the_last_launch_has_ended() -> None:
    clock = Clock()

    async def scenario(app: Console, pilot: Pilot[int], screen: PrimitivesScreen) -> None:
        clock.passes(1e6)
        screen.tick()
        await pilot.pause()
        assert "job 17 may be left" in toasts(app)
        assert "job 17 runs" not in toasts(app)

    play(scenario, PrimitivesScreen(LeavesAJob(at("ranks-2", 6, clock))))


def test_of_a_trial_that_failed_it_is_said_why_there_is_nothing(tmp_path: Path) -> None:
    from ddptui.store.outcomes import results_of

    run = spoilt_run(tmp_path)

    async def scenario(app: Console, pilot: Pilot[int], screen: PrimitivesScreen) -> None:
        assert "died" not in seen(app)
        await pilot.press("3")
        assert "ranks-4 failed: rank 1 [/] died" in seen(app)

    play(scenario, PrimitivesScreen(EndedRun(run, run.preset(), results_of(run, run.preset()))))


# As it went


def test_a_replay_goes_on_and_back_and_begins_anew() -> None:
    clock = Clock()

    async def scenario(app: Console, pilot: Pilot[int], screen: PrimitivesScreen) -> None:
        assert "replay × 1" in seen(app)
        await pilot.press("plus", "H")
        assert "replay × 2, paused" in seen(app)
        for _ in range(20):
            await pilot.press("less_than_sign")
        screen.tick()
        await pilot.pause()
        assert screen.so_far.result("ranks-2") is None
        await pilot.press(*20 * ["greater_than_sign"])
        screen.tick()
        await pilot.pause()
        assert screen.so_far.result("ranks-4") is not None
        await pilot.press("x", "v")
        assert app.screen is screen
        await pilot.press("escape")
        await pilot.pause()
        assert not isinstance(app.screen, PrimitivesScreen)

    play(scenario, PrimitivesScreen(at("ranks-2", 6, clock)))


# Ways here, and help


def test_runs_of_primitives_have_this_screen_and_others_have_theirs() -> None:
    feed, trained = over(), of_training.playback()
    assert isinstance(screen_of(playback()), PrimitivesScreen)
    assert isinstance(screen_of(trained), RunScreen)
    assert isinstance(screen_of(feed), PrimitivesScreen)
    assert isinstance(screen_of(EndedRun(trained.run, trained.preset, trained.results)), ResultScreen)


def test_it_is_opened_from_the_runs_and_replayed(tmp_path: Path) -> None:
    shutil.copytree(RECORDED, tmp_path / "run")

    async def check() -> None:
        async with opened(tmp_path) as (app, pilot):
            app.action_runs()
            await until(pilot, lambda: "1 run" in seen(app))
            await pilot.press("enter")
            await until(pilot, lambda: isinstance(app.screen, PrimitivesScreen))
            opened_one = app.screen
            await pilot.press("v")
            await until(pilot, lambda: app.screen is not opened_one)
            assert isinstance(app.screen, PrimitivesScreen)
            await until(pilot, lambda: "replay" in seen(app))

    asyncio.run(check())


def test_help_has_the_keys_that_mean_something_now() -> None:
    async def scenario(app: Console, pilot: Pilot[int], screen: PrimitivesScreen) -> None:
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
        await until(pilot, lambda: "Size of the tensor, with all parts" in seen(app))

    play(scenario, PrimitivesScreen(over()), (120, 60))


@pytest.mark.parametrize("key", ["1", "2"])
def test_on_a_small_terminal_the_footer_has_all_that_one_needs(key: str) -> None:
    async def scenario(app: Console, pilot: Pilot[int], screen: PrimitivesScreen) -> None:
        await pilot.press(key)
        await pilot.pause()
        footer = seen(app).splitlines()[-1]
        for words in ("x Export", "v Replay", "esc Back", "n Next", "space Look" if key == "1" else "f Plot"):
            assert words in footer

    play(scenario, PrimitivesScreen(over()), (80, 24))


@pytest.mark.parametrize("size", [(1, 1), (60, 16), *SIZES])
@pytest.mark.parametrize("key", ["1", "2"])
def test_any_size_will_do(size: tuple[int, int], key: str) -> None:
    async def scenario(app: Console, pilot: Pilot[int], screen: PrimitivesScreen) -> None:
        await pilot.press(key, "space", "n")
        await pilot.resize_terminal(*size)
        await pilot.pause()
        await pilot.press("p", "space", "f")
        if size[0] >= 60:
            assert screen.query_one("#grid" if key == "1" else "#plot").region.area

    play(scenario, PrimitivesScreen(over()))


def test_a_run_without_anything_in_it_can_be_looked_at() -> None:
    nothing: Results = msgspec.structs.replace(
        results(),
        trials=[
            msgspec.structs.replace(trial, status="skipped", primitives=[], command=[]) for trial in results().trials
        ],
    )

    async def scenario(app: Console, pilot: Pilot[int], screen: PrimitivesScreen) -> None:
        assert "see was not reached" in seen(app)
        await pilot.press("space", "n", "2", "space", "f", "t", "a")

    play(scenario, PrimitivesScreen(over()._replace(results=nothing)))


def test_names_are_shown_as_they_are() -> None:
    def rude(view: View) -> View:
        buffers = [BufferView(name="[/]\x1b", parts=1, before=[1.0], after=[1.0], undefined=False)]
        return msgspec.structs.replace(view, ranks=[RankView(rank=0, call="[bold]\x1b[2J", buffers=buffers)])

    async def scenario(app: Console, pilot: Pilot[int], screen: PrimitivesScreen) -> None:
        assert "[/]" in seen(app)
        assert "[bold][2J" in seen(app)
        assert "\x1b" not in seen(app)
        now = screen.query_one("#now", Static)
        await until(pilot, lambda: now.display)
        question, said = "What does each primitive do, and how long does it take? ", "11 primitives ran on 4 ranks over"
        assert str(now.content).startswith(question + said)

    play(scenario, PrimitivesScreen(replace(rude)))


def test_with_few_lines_the_answer_is_its_first_sentence_and_buffers_have_all_of_them() -> None:
    async def scenario(app: Console, pilot: Pilot[int], screen: PrimitivesScreen) -> None:
        now = screen.query_one("#now", Static)
        await pilot.press("2")
        await until(pilot, lambda: now.display)
        assert str(now.content).startswith("11 primitives ran on 4 ranks over gloo")
        assert "busbw  #wrong" in seen(app)
        await pilot.press("1")
        await until(pilot, lambda: not now.display)

    play(scenario, PrimitivesScreen(over()), (80, 24))


def test_after_the_end_the_answer_is_as_long_as_a_new_size_has_room_for() -> None:
    async def scenario(app: Console, pilot: Pilot[int], screen: PrimitivesScreen) -> None:
        now = screen.query_one("#now", Static)
        await until(pilot, lambda: now.display)
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: not now.display)
        await pilot.resize_terminal(120, 40)
        await until(pilot, lambda: now.display)

    play(scenario, PrimitivesScreen(over()), (120, 40))


def test_the_plot_is_of_the_run_that_is_looked_at() -> None:
    async def scenario(app: Console, pilot: Pilot[int], screen: PrimitivesScreen) -> None:
        await pilot.press("3", "n")
        result = screen.query_one(SizePlot)._result
        assert result is not None
        assert result.ranks == 4

    play(scenario, PrimitivesScreen(over()))


def test_where_nothing_is_new_nothing_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []
    redraw, lay_out = Canvas.redraw, PrimitiveGrid.lay_out

    def noted(canvas: Canvas) -> None:
        drawn.append(canvas.id or "")
        redraw(canvas)

    def laid_out(grid: PrimitiveGrid, width: int) -> None:
        drawn.append(grid.id or "")
        lay_out(grid, width)

    monkeypatch.setattr(Canvas, "redraw", noted)
    monkeypatch.setattr(PrimitiveGrid, "lay_out", laid_out)

    async def scenario(app: Console, pilot: Pilot[int], screen: PrimitivesScreen) -> None:
        for key, after_a_key in (("1", "grid"), ("2", "plot")):
            await pilot.press(key)
            await pilot.pause()
            drawn.clear()
            screen.tick()
            await pilot.pause()
            assert not drawn
            await pilot.press("n")
            await pilot.pause()
            assert drawn == [after_a_key]

    play(scenario, PrimitivesScreen(over()))


@pytest.mark.parametrize("typed", ["~/nowhere/x.json", "nowhere/x.json", "~nobody-of-this-name/x.json"])
def test_the_path_of_an_export_can_be_typed(typed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    async def scenario(app: Console, pilot: Pilot[int], screen: PrimitivesScreen) -> None:
        await pilot.press("x")
        app.screen.query_one(Input).value = typed
        await pilot.press("tab", "enter")
        await until(pilot, lambda: toasts(app))
        assert toasts(app) == [f"{tmp_path / typed.removeprefix('~/')}: No such file or directory"]

    play(scenario, PrimitivesScreen(over()))


def test_the_list_takes_keys_although_the_screen_opened_in_the_background(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path) as (app, pilot):
            app.post_message(AppBlur())
            await until(pilot, lambda: not app.app_focus)
            await app.push_screen(PrimitivesScreen(over()))
            app.post_message(AppFocus())
            await until(pilot, lambda: app.app_focus)
            assert app.screen.focused is app.screen.query_one(PrimitiveList)

    asyncio.run(scenario())
