"""A replay on the Run screen: it begins at a trial, and keys take it step by step, from trial to trial, or to a place
of the run. The recorded run has a launch each of none, late and killed."""

import json
import shutil
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from textual.pilot import Pilot

from ddptui.config.preset import Preset
from ddptui.run import playback as recording
from ddptui.run.playback import Playback, Recording
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
from tests.tui.opened import on, opened, seen, shows, tick, toasts, until
from tests.tui.recordings import RECORDED, Clock, ToldAsItGoes, over, playback


@asynccontextmanager
async def on_replay(
    size: tuple[int, int] = (120, 40),
) -> AsyncIterator[tuple[Console, Pilot[int], RunScreen, Playback, Clock]]:
    """A replay at the first step of late."""
    clock = Clock()
    told = playback(clock)
    assert told.seek_trial("late")
    async with on(RunScreen(told), size) as (app, pilot, screen):
        yield app, pilot, screen, told, clock


async def test_the_bar_takes_one_line_and_shows_where_trials_begin() -> None:
    async with on_replay() as (app, pilot, screen, told, _):
        live = screen.watched.live
        assert (live.trial, live.step, live.finished, live.status) == ("late", 1, 1, "running")  # its first step
        bar = seen(app).splitlines()[1]
        assert (bar.count("┿"), bar.count("┼")) == (1, 2)  # of late's own cell, no half is over
        for size in ((60, 16), (80, 24), (200, 60), (120, 40)):
            await pilot.resize_terminal(*size)
            await tick(pilot, screen)
            title, line, *_ = seen(app).splitlines()
            bar, percent, *pace = line.split()
            assert {*bar} <= {*"━─┿┼"}
            assert (percent[-1], pace) == ("%", ["replay", "×", "1"])
            assert "late (2 of 3)" in title
        told.seek(1e6)
        await tick(pilot, screen)
        bar = seen(app).splitlines()[1]
        assert (bar.count("┿"), bar.count("─")) == (3, 0)
        assert bar.endswith("100%  replay × 1")
        await pilot.press("space", *3 * ["minus"])
        assert ", paused" in seen(app).splitlines()[1]


async def test_steps_of_all_ranks_add_up_and_trials_follow_each_other_on_and_back() -> None:
    async with on_replay() as (app, pilot, screen, told, clock):
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
        await pilot.press("n")
        screen.tick()
        for key, trial in (("n", "killed"), ("n", "killed"), ("p", "late"), ("p", "none"), ("p", "none")):
            await pilot.press(key)
            screen.tick()
            assert (screen.watched.live.trial, screen.watched.live.step) == (trial, 1)
        assert toasts(app) == ["This is the last one.", "This is the first one."]
        before = told.now_ns()
        await pilot.press("b", "B")
        assert (told.now_ns(), len(toasts(app))) == (before, 2)
        await pilot.press("question_mark")
        assert "change of delays" not in seen(app)


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


async def test_from_change_to_change_of_delays_and_it_says_where_there_is_none(tmp_path: Path) -> None:
    run, moments = changed(tmp_path)
    told = Playback(run, run.preset(), Clock())
    async with on(RunScreen(told)) as (app, pilot, screen):
        assert seen(app).splitlines()[1].count("b") in (1, 2)  # they may share a cell of the bar
        for key, at in (("B", 0), ("b", 1), ("b", 1), ("B", 0), ("B", 0)):
            await pilot.press(key)
            screen.tick()
            assert (told.now_ns(), screen.watched.live.changed_ns) == (moments[at], moments[at])
        assert toasts(app) == [f"This is the {which} one." for which in ("first", "last", "first")]
        await pilot.press("question_mark")
        assert "the next or the previous change of delays" in seen(app)


async def test_of_a_long_run_it_says_how_many_steps_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "MOST_EVENTS", 400)
    monkeypatch.setattr(recording, "AROUND", 2)
    async with on_replay() as (app, pilot, screen, told, _):
        told.seek(0.1)
        await tick(pilot, screen)
        assert f"1 step in {told.recording.every} shown" in seen(app).splitlines()[0]
        await pilot.press("full_stop")
        assert screen.watched.live.step % told.recording.every == 1


async def test_digits_are_tenths_of_the_run_a_click_goes_there_and_a_start_is_left_out() -> None:
    async with on_replay() as (app, pilot, screen, told, clock):
        for tenths in (9, 0, 5):
            await pilot.press(str(tenths))
            await tick(pilot, screen)
            share = told.course.share(told.now_ns())
            assert share >= tenths / 10
            assert f" {share:.0%}" in seen(app).splitlines()[1]
        assert screen.query_one(Panes).chosen == "ranks"
        await pilot.press("0")
        assert told.now_ns() == told.begin_ns
        await pilot.click(ProgressBar, offset=(95, 0))
        await until(pilot, lambda: told.course.share(told.now_ns()) > 0.9)
        await pilot.press("0")
        clock.passes(0.1)
        screen.tick()
        await pilot.press("space")
        assert (screen.watched.live.trial, screen.watched.live.step > 1) == ("none", True)


async def test_panes_have_no_numbers_and_are_reached_all_the_same() -> None:
    async with on_replay((80, 24)) as (app, pilot, screen, _, _):
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
            await until(pilot, lambda name=name: screen.focused is panes.pane(name))


async def test_in_a_run_under_way_digits_choose_panes_and_nothing_jumps() -> None:
    told = playback()
    told.seek_trial("none")
    async with on(RunScreen(ToldAsItGoes(told))) as (app, pilot, screen):
        before = told.now_ns()
        await pilot.press("full_stop", "comma", "n", "p", "9", "0", "right", "3")
        assert (told.now_ns(), told.paused, screen.query_one(Panes).chosen) == (before, False, "timeline")
        await shows(pilot, "of the run", "─ 3 Timeline")
        await pilot.press("question_mark")
        assert "Replay: " not in seen(app)


# Ways here


def recorded(tmp_path: Path) -> Run:
    return Run(shutil.copytree(RECORDED, tmp_path / "run"))


async def replayed(app: Console, pilot: Pilot[int]) -> Playback:
    """The replay that opens."""
    await until(pilot, lambda: isinstance(app.screen, RunScreen))
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
async def test_from_a_result_it_begins_at_the_trial_under_the_cursor(tmp_path: Path) -> None:
    async with on(ResultScreen(*over(recorded(tmp_path)))) as (app, pilot, screen):
        screen._table.choose("killed")
        await pilot.press("v")
        told = await replayed(app, pilot)
        await until(pilot, lambda: told.now_ns() == told.course.firsts_ns[2])
        assert not toasts(app)


@pytest.mark.usefixtures("held")
async def test_keys_work_while_a_long_run_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    is_read = threading.Event()
    read = Recording._read
    monkeypatch.setattr(Recording, "_read", lambda *args: is_read.wait() and read(*args))
    recorded(tmp_path)
    async with opened(tmp_path, RunsScreen()) as (app, pilot):
        await shows(pilot, "1 run")
        await pilot.press("v")
        await until(pilot, lambda: PREPARING in seen(app))
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen))
        await pilot.press("escape")
        is_read.set()
        told = await replayed(app, pilot)
        assert told.now_ns() <= told.course.firsts_ns[0]


async def test_of_primitives_it_begins_at_the_trial_that_shows_and_has_the_others_results(tmp_path: Path) -> None:
    run = Run(shutil.copytree(primitive_recordings.RECORDED, tmp_path / "run"))
    app_screen = PrimitivesScreen(primitive_recordings.over())
    app_screen.feed = app_screen.feed._replace(run=run)  # type: ignore[union-attr]
    async with opened(tmp_path, app_screen) as (app, pilot):
        await pilot.press("2", "v")
        await until(pilot, lambda: app.screen is not app_screen and isinstance(app.screen, PrimitivesScreen))
        replay = app.screen
        first, second = (trial.name for trial in replay.feed.preset.trials[:2])
        await until(pilot, lambda: replay.trial.name == second)
        assert replay.so_far.result(first) is not None
