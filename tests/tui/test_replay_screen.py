"""A replay on the Run screen: it begins at a trial, and keys take it step by step, from trial to trial, or to a place
of the run. The recorded run has a launch each of none, late and killed."""

import asyncio
import json
import shutil
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from textual.app import App, ComposeResult
from textual.pilot import Pilot

from ddptui.config.preset import Preset
from ddptui.run import recording
from ddptui.run.playback import Playback
from ddptui.run.recording import Recording
from ddptui.store.outcomes import results_of
from ddptui.store.runs import Run
from ddptui.tui.app import PREPARING, Console
from ddptui.tui.screens.dialogs import HelpScreen
from ddptui.tui.screens.primitives import PrimitivesScreen
from ddptui.tui.screens.result import ResultScreen
from ddptui.tui.screens.run import RunScreen
from ddptui.tui.screens.runs import RunsScreen
from ddptui.tui.widgets.frame import PaneBar, ProgressBar
from ddptui.tui.widgets.panes import TITLES, Panes
from ddptui.wire.records import Injection
from tests.tui import primitive_recordings
from tests.tui.opened import opened, seen, toasts, until
from tests.tui.recordings import RECORDED, Clock, ToldAsItGoes, playback

Scenario = Callable[[Console, Pilot[int], RunScreen, Playback, Clock], Awaitable[None]]


def play(tmp_path: Path, scenario: Scenario, size: tuple[int, int] = (120, 40)) -> None:
    """Open a replay at the first step of late."""

    async def check() -> None:
        clock = Clock()
        told = playback(clock)
        assert told.seek_trial("late")
        screen = RunScreen(told)
        async with opened(tmp_path, screen, size) as (app, pilot):
            screen.tick()
            await pilot.pause()
            await scenario(app, pilot, screen, told, clock)

    asyncio.run(check())


def test_at_a_trial_is_at_its_first_step(tmp_path: Path) -> None:
    async def scenario(app: Console, pilot: Pilot[int], screen: RunScreen, told: Playback, clock: Clock) -> None:
        live = screen.watched.live
        assert (live.trial, live.step, live.finished, live.status) == ("late", 1, 1, "running")
        assert "late (2 of 3)" in seen(app)

    play(tmp_path, scenario)


def test_steps_of_all_ranks_add_up_on_and_back(tmp_path: Path) -> None:
    async def scenario(app: Console, pilot: Pilot[int], screen: RunScreen, told: Playback, clock: Clock) -> None:
        await pilot.press(*10 * ["full_stop"])
        assert [rank.step for rank in screen.watched.live.ranks.values()] == [11, 11]
        assert ", paused" in seen(app)
        await pilot.press(*4 * ["comma"])
        screen.tick()
        assert min(rank.step for rank in screen.watched.live.ranks.values()) == 7
        clock.passes(60)
        screen.tick()
        assert screen.watched.live.step == 7
        await pilot.press(*7 * ["comma"])
        screen.tick()
        assert (screen.watched.live.trial, screen.watched.live.status) == ("none", "running")

    play(tmp_path, scenario)


def test_from_trial_to_trial_and_it_says_where_there_is_none(tmp_path: Path) -> None:
    async def scenario(app: Console, pilot: Pilot[int], screen: RunScreen, told: Playback, clock: Clock) -> None:
        for key, trial in (("n", "killed"), ("n", "killed"), ("p", "late"), ("p", "none"), ("p", "none")):
            await pilot.press(key)
            screen.tick()
            assert (screen.watched.live.trial, screen.watched.live.step) == (trial, 1)
        assert toasts(app) == ["This is the last one.", "This is the first one."]

    play(tmp_path, scenario)


def changed(tmp_path: Path) -> tuple[Run, list[int]]:
    """The recorded run, in which delays were changed at these moments."""
    run = recorded(tmp_path)
    path = run.repeat_folder("late", 1) / "messages.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    ends = [json.loads(line)["end_ns"] for line in lines if b'"Step"' in line]
    moments = [ends[len(ends) // 3], ends[len(ends) // 2]]
    injected = [msgspec.json.encode(Injection(at_ns=at_ns, bottleneck=())) + b"\n" for at_ns in moments]
    path.write_bytes(b"".join([*lines[:-1], *injected, lines[-1]]))
    return run, moments


def test_from_change_to_change_of_delays_and_it_says_where_there_is_none(tmp_path: Path) -> None:
    async def check() -> None:
        run, moments = changed(tmp_path)
        told = Playback(run, run.preset(), Clock())
        screen = RunScreen(told)
        async with opened(tmp_path, screen) as (app, pilot):
            for key, at in (("B", 0), ("b", 1), ("b", 1), ("B", 0), ("B", 0)):
                await pilot.press(key)
                screen.tick()
                assert (told.now_ns(), screen.watched.live.changed_ns) == (moments[at], moments[at])
            assert toasts(app) == [f"This is the {which} one." for which in ("first", "last", "first")]
            await pilot.press("question_mark")
            assert "the next or the previous change of delays" in seen(app)

    asyncio.run(check())


def test_without_a_change_of_delays_there_is_no_key_for_it(tmp_path: Path) -> None:
    async def scenario(app: Console, pilot: Pilot[int], screen: RunScreen, told: Playback, clock: Clock) -> None:
        before = told.now_ns()
        await pilot.press("b", "B")
        assert (told.now_ns(), toasts(app)) == (before, [])
        await pilot.press("question_mark")
        assert "change of delays" not in seen(app)

    play(tmp_path, scenario)


def test_of_a_long_run_it_says_how_many_steps_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "MOST_EVENTS", 400)
    monkeypatch.setattr(recording, "AROUND", 2)

    async def scenario(app: Console, pilot: Pilot[int], screen: RunScreen, told: Playback, clock: Clock) -> None:
        told.seek(0.1)
        screen.tick()
        await pilot.pause()
        assert f"1 step in {told.recording.every} shown" in seen(app).splitlines()[0]
        await pilot.press("full_stop")
        assert screen.watched.live.step % told.recording.every == 1

    play(tmp_path, scenario)


def test_digits_are_tenths_of_the_run(tmp_path: Path) -> None:
    async def scenario(app: Console, pilot: Pilot[int], screen: RunScreen, told: Playback, clock: Clock) -> None:
        for tenths in (9, 0, 5):
            await pilot.press(str(tenths))
            screen.tick()
            await pilot.pause()
            share = told.course.share(told.now_ns())
            assert share >= tenths / 10
            assert f" {share:.0%}" in seen(app).splitlines()[1]
        assert screen.query_one(Panes).chosen == "ranks"
        await pilot.press("0")
        assert told.now_ns() == told.begin_ns

    play(tmp_path, scenario)


def test_a_click_on_the_bar_goes_there(tmp_path: Path) -> None:
    async def scenario(app: Console, pilot: Pilot[int], screen: RunScreen, told: Playback, clock: Clock) -> None:
        await pilot.click(ProgressBar, offset=(95, 0))
        await until(pilot, lambda: told.course.share(told.now_ns()) > 0.9)

    play(tmp_path, scenario)


def test_the_bar_shows_where_trials_begin(tmp_path: Path) -> None:
    async def scenario(app: Console, pilot: Pilot[int], screen: RunScreen, told: Playback, clock: Clock) -> None:
        bar = seen(app).splitlines()[1]
        assert (bar.count("┿"), bar.count("┼")) == (1, 2)  # of late's own cell, no half is over
        told.seek(1e6)
        screen.tick()
        await pilot.pause()
        bar = seen(app).splitlines()[1]
        assert (bar.count("┿"), bar.count("─")) == (3, 0)
        assert bar.endswith("100%  replay × 1")

    play(tmp_path, scenario)


def test_it_leaves_out_a_start(tmp_path: Path) -> None:
    async def scenario(app: Console, pilot: Pilot[int], screen: RunScreen, told: Playback, clock: Clock) -> None:
        await pilot.press("0")
        clock.passes(0.1)
        screen.tick()
        await pilot.press("space")
        assert (screen.watched.live.trial, screen.watched.live.step > 1) == ("none", True)

    play(tmp_path, scenario)


def shows(screen: RunScreen, pane: str) -> bool:
    return screen.focused is screen.query_one(Panes).pane(pane)


def test_panes_have_no_numbers_and_are_reached_all_the_same(tmp_path: Path) -> None:
    async def scenario(app: Console, pilot: Pilot[int], screen: RunScreen, told: Playback, clock: Clock) -> None:
        panes = screen.query_one(Panes)
        bar = seen(app).splitlines()[screen.query_one(PaneBar).region.y]
        titles = {name: title for name, title in TITLES.items() if name != "where"}  # no line was sampled
        assert bar.split() == " ".join(titles.values()).split()
        for name in [*list(titles)[1:], "ranks"]:
            await pilot.press("tab")
            assert panes.chosen == name
            assert screen.focused is panes.pane(name)
            assert panes.pane(name).region.area
            assert not str(panes.pane(name).border_title)[0].isdigit()
        await pilot.press("shift+tab")
        assert panes.chosen == "log"
        for name, title in titles.items():
            await pilot.click(PaneBar, offset=(bar.index(title), 0))
            await until(pilot, partial(shows, screen, name))

    play(tmp_path, scenario, (80, 24))


def test_in_a_run_under_way_digits_choose_panes_and_nothing_jumps(tmp_path: Path) -> None:
    async def check() -> None:
        told = playback()
        told.seek_trial("none")
        screen = RunScreen(ToldAsItGoes(told))
        async with opened(tmp_path, screen) as (app, pilot):
            screen.tick()
            before = told.now_ns()
            await pilot.press("full_stop", "comma", "n", "p", "9", "0", "right", "3")
            assert (told.now_ns(), told.paused, screen.query_one(Panes).chosen) == (before, False, "timeline")
            assert "of the run" in seen(app)
            assert "─ 3 Timeline" in seen(app)
            await pilot.press("question_mark")
            assert "Replay: " not in seen(app)

    asyncio.run(check())


# Ways here


def recorded(tmp_path: Path) -> Run:
    return Run(shutil.copytree(RECORDED, tmp_path / "run"))


async def replayed(app: Console, pilot: Pilot[int]) -> Playback:
    """The replay that opens."""
    await until(pilot, lambda: isinstance(app.screen, RunScreen))
    assert isinstance(app.screen, RunScreen)
    assert isinstance(app.screen.feed, Playback)
    return app.screen.feed


class Held(Playback):
    """A replay that stays where it begins: the recorded launches take a moment only."""

    def __init__(self, run: Run, preset: Preset, **works: Any) -> None:
        super().__init__(run, preset, clock=Clock(), **works)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ddptui.run.playback.Playback", Held)


@pytest.mark.usefixtures("held")
def test_from_a_result_it_begins_at_the_trial_under_the_cursor(tmp_path: Path) -> None:
    async def check() -> None:
        run = recorded(tmp_path)
        preset = run.preset()
        screen = ResultScreen(run, preset, results_of(run, preset))
        async with opened(tmp_path, screen) as (app, pilot):
            screen._table.choose("killed")
            await pilot.press("v")
            told = await replayed(app, pilot)
            await until(pilot, lambda: told.now_ns() == told.course.firsts_ns[2])
            assert not toasts(app)

    asyncio.run(check())


@pytest.mark.usefixtures("held")
def test_with_a_trial_that_was_not_launched_it_begins_with_the_run(tmp_path: Path) -> None:
    async def check() -> None:
        run = recorded(tmp_path)
        preset = run.preset()
        shutil.rmtree(run.repeat_folder("killed", 1))
        screen = ResultScreen(run, preset, results_of(run, preset))
        async with opened(tmp_path, screen) as (app, pilot):
            screen._table.choose("killed")
            await pilot.press("v")
            told = await replayed(app, pilot)
            assert told.now_ns() <= told.course.firsts_ns[0]

    asyncio.run(check())


def test_while_a_long_run_is_read_it_says_so_and_keys_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    is_read = threading.Event()
    read = Recording._read
    monkeypatch.setattr(Recording, "_read", lambda *args: is_read.wait() and read(*args))

    async def check() -> None:
        recorded(tmp_path)
        async with opened(tmp_path, RunsScreen()) as (app, pilot):
            await until(pilot, lambda: "1 run" in seen(app))
            await pilot.press("v")
            await until(pilot, lambda: PREPARING in seen(app))
            await pilot.press("question_mark")
            await until(pilot, lambda: isinstance(app.screen, HelpScreen))
            await pilot.press("escape")
            is_read.set()
            await replayed(app, pilot)

    asyncio.run(check())


@pytest.mark.usefixtures("held")
def test_from_the_runs_it_begins_with_the_run(tmp_path: Path) -> None:
    async def check() -> None:
        recorded(tmp_path)
        async with opened(tmp_path, RunsScreen()) as (app, pilot):
            await until(pilot, lambda: "1 run" in seen(app))
            await pilot.press("v")
            told = await replayed(app, pilot)
            assert told.now_ns() <= told.course.firsts_ns[0]
            assert not toasts(app)

    asyncio.run(check())


def test_of_primitives_it_begins_at_the_trial_that_shows_and_has_the_others_results(tmp_path: Path) -> None:
    async def check() -> None:
        run = Run(shutil.copytree(primitive_recordings.RECORDED, tmp_path / "run"))
        app_screen = PrimitivesScreen(primitive_recordings.over())
        app_screen.feed = app_screen.feed._replace(run=run)  # type: ignore[union-attr]
        async with opened(tmp_path, app_screen) as (app, pilot):
            await pilot.press("2", "v")
            await until(pilot, lambda: app.screen is not app_screen and isinstance(app.screen, PrimitivesScreen))
            replay = app.screen
            assert isinstance(replay, PrimitivesScreen)
            first, second = (trial.name for trial in replay.feed.preset.trials[:2])
            await until(pilot, lambda: replay.trial.name == second)
            assert replay.so_far.result(first) is not None

    asyncio.run(check())


@pytest.mark.parametrize("size", [(60, 16), (80, 24), (120, 40), (200, 60)])
def test_the_bar_takes_one_line(tmp_path: Path, size: tuple[int, int]) -> None:
    async def scenario(app: Console, pilot: Pilot[int], screen: RunScreen, told: Playback, clock: Clock) -> None:
        lines = seen(app).splitlines()
        bar, percent, *pace = lines[1].split()
        assert {*bar} <= {*"━─┿┼"}
        assert (percent[-1], pace) == ("%", ["replay", "×", "1"])
        await pilot.press("space", *3 * ["minus"])
        assert ", paused" in seen(app).splitlines()[1]
        assert "late (2 of 3)" in seen(app).splitlines()[0]

    play(tmp_path, scenario, size)


def test_the_bar_shows_where_delays_were_changed() -> None:
    bar = ProgressBar(lambda share: None)

    class Shown(App[None]):
        def compose(self) -> ComposeResult:
            yield bar

    async def check() -> None:
        app = Shown()
        async with app.run_test(size=(80, 24)) as pilot:
            bar.show(0.5, "  replay × 1", [0.0], [0.25, 0.75])
            await pilot.pause()
            line = str(bar.render())
            cells = bar.size.width - len("  50%  replay × 1")
            assert [at for at, sign in enumerate(line[:cells]) if sign == "b"] == [int(cells * 0.25), int(cells * 0.75)]

    asyncio.run(check())
