"""Checks before a launch: in a thread, shown, cancelled by escape or by leaving, and never two at a time."""

import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from textual.command import Hit
from textual.pilot import Pilot
from textual.system_commands import SystemCommandsProvider

from ddptui.config.parser import PresetError
from ddptui.config.preset import Preset
from ddptui.run import prepare
from ddptui.run.prepare import Resumption, begin_resumption
from ddptui.store.presets import load
from ddptui.store.runs import Run
from ddptui.tui import commands
from ddptui.tui.app import PREPARING, Console
from ddptui.tui.commands import StoredCommands
from ddptui.tui.screens.dialogs import HelpScreen
from ddptui.tui.screens.lab import Lab
from ddptui.tui.screens.runs import RunsScreen
from tests.support.builders import journal, two_trials, write_run
from tests.tui.opened import PATIENCE_S, are_all_listed, opened, seen, shows, toasts, until


class SlowCheck:
    """Stands for `settle`: returns the preset when it is released."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.calls = 0

    def __call__(self, preset: Preset) -> Preset:
        self.calls += 1
        assert self.released.wait(PATIENCE_S), "the screen waits for the check"
        return preset


@pytest.fixture
def check() -> Iterator[SlowCheck]:
    slow = SlowCheck()
    yield slow
    slow.released.set()


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Preset]:
    presets: list[Preset] = []
    monkeypatch.setattr(Console, "_start", lambda _, new: presets.append(new.preset))
    return presets


def preset() -> Preset:
    return load("quickstart")


async def begin(app: Console, pilot: Pilot[int], check: SlowCheck, times: int = 1) -> None:
    for _ in range(times):
        app.launch(partial(check, preset()))
    await until(pilot, lambda: check.calls and PREPARING in seen(app))


async def test_a_preset_of_the_palette_is_checked_beside_the_screen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, check: SlowCheck, started: list[Preset]
) -> None:
    monkeypatch.setattr(commands, "prepare", check)
    async with opened(tmp_path, RunsScreen()) as (app, pilot):
        palette = StoredCommands(app.screen)
        await palette.startup()
        hits = [hit async for hit in palette.search("preset: quickstart") if isinstance(hit, Hit)]
        max(hits, key=lambda hit: hit.score).command()
        await until(pilot, lambda: PREPARING in seen(app))
        await pilot.press("question_mark")
        assert isinstance(app.screen, HelpScreen)
        assert not started
        check.released.set()
        await until(pilot, lambda: started)


async def test_the_palette_needs_no_list_of_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable(_: Path) -> list[Run]:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(commands, "all_runs", unreadable)
    async with opened(tmp_path, RunsScreen()) as (app, _):
        shown = [str(hit.text) async for hit in SystemCommandsProvider(app.screen).discover()]
        assert {"Theme", "view: runs"} <= set(shown)
        palette = StoredCommands(app.screen)
        await palette.startup()
        assert [hit async for hit in palette.search("preset: quickstart")]


async def test_a_run_is_resumed_with_checks_beside_the_screen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, check: SlowCheck, started: list[Preset]
) -> None:
    monkeypatch.setattr(prepare, "prepare", check)
    run = write_run(tmp_path, two_trials(repeats=1), journal("a"))
    async with opened(tmp_path, screen := RunsScreen()) as (app, pilot):
        await until(pilot, lambda: are_all_listed(screen))
        await pilot.press("R")
        await until(pilot, lambda: PREPARING in seen(app))
        assert not started
        assert run.is_held()  # no other console may launch what this one reads as missing
        check.released.set()
        await until(pilot, lambda: started)
        assert PREPARING not in seen(app)


async def test_a_run_whose_resumption_is_cancelled_is_free_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, check: SlowCheck, started: list[Preset]
) -> None:
    monkeypatch.setattr(Resumption, "finished", lambda _: check(preset()))
    run = write_run(tmp_path, two_trials(repeats=1), journal("a"))
    app = Console(tmp_path, begun=begin_resumption(run))
    async with app.run_test() as pilot:
        await until(pilot, lambda: PREPARING in seen(app))
        await pilot.press("escape")
        await until(pilot, lambda: not app.check_action("cancel", ()))
        assert run.is_held()  # the thread runs on
        check.released.set()
        await until(pilot, lambda: not run.is_held())
        assert not started


async def test_on_a_busy_machine_a_resumption_is_asked_for(tmp_path: Path, started: list[Preset]) -> None:
    run = write_run(tmp_path, two_trials(repeats=1), journal("a"))
    async with opened(tmp_path, screen := RunsScreen()) as (app, pilot):
        app.busy = "other programs kept 1.7 cores busy"
        await until(pilot, lambda: are_all_listed(screen))
        await pilot.press("R")
        await shows(pilot, "other programs kept 1.7 cores busy")
        assert run.is_held()
        await pilot.press("escape")
        await until(pilot, lambda: not run.is_held())
        assert not started
        await pilot.press("R")
        await shows(pilot, "Start anyway (y)")
        await pilot.press("y")
        await until(pilot, lambda: started)


async def test_a_run_of_the_command_line_is_resumed_at_once(tmp_path: Path, started: list[Preset]) -> None:
    run = write_run(tmp_path, two_trials(repeats=1), journal("a"))
    async with Console(tmp_path, begun=begin_resumption(run)).run_test() as pilot:
        await until(pilot, lambda: started == [run.preset()])


@pytest.mark.parametrize("leaves", [True, False])
async def test_escape_or_leaving_meanwhile_starts_nothing(
    tmp_path: Path, check: SlowCheck, started: list[Preset], leaves: bool
) -> None:
    async with opened(tmp_path, RunsScreen()) as (app, pilot):
        await begin(app, pilot, check)
        if leaves:
            app.action_runs()
        else:
            await pilot.press("escape")
        await until(pilot, lambda: not app.check_action("cancel", ()))
        check.released.set()
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert not started
        assert PREPARING not in seen(app)
        app.launch(preset)
        await until(pilot, lambda: started)


async def test_a_check_that_hangs_holds_nothing_open(tmp_path: Path, check: SlowCheck, started: list[Preset]) -> None:
    async with opened(tmp_path, RunsScreen()) as (app, pilot):
        await begin(app, pilot, check)
        await pilot.press("q")
    assert not check.released.is_set()
    assert not started


async def test_a_refusal_is_shown_and_a_burst_starts_one_run(
    tmp_path: Path, started: list[Preset], check: SlowCheck
) -> None:
    def refuse() -> Preset:
        raise PresetError("quickstart: no [/such] thing")

    async with opened(tmp_path, RunsScreen()) as (app, pilot):
        app.launch(refuse)
        await until(pilot, lambda: toasts(app))
        assert toasts(app) == ["quickstart: no [/such] thing"]
        assert isinstance(app.screen, RunsScreen)
        app.launch(preset)
        await until(pilot, lambda: started)
        started.clear()
        await begin(app, pilot, check, times=5)
        check.released.set()
        await until(pilot, lambda: started)
        await app.workers.wait_for_complete()
        assert len(started) == check.calls == 1
        assert len(toasts(app)) == 1


async def test_the_lab_is_made_when_somebody_comes_back_to_it(tmp_path: Path) -> None:
    async with opened(tmp_path, RunsScreen()) as (app, pilot):
        assert not any(isinstance(screen, Lab) for screen in app.screen_stack)
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, Lab) and "Lessons" in seen(app))


async def test_a_run_that_cannot_begin_at_once_is_complained_of_in_the_lab(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file, where a folder should be")
    app = Console(tmp_path / "runs", load("quickstart"))
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: toasts(app) and isinstance(app.screen, Lab) and "Lessons" in seen(app))
