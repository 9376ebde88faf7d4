"""The Runs screen, and two runs side by side."""

import threading
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from textual.pilot import Pilot
from textual.screen import Screen

from ddptui.analysis.repeats import ResultsOutline
from ddptui.store.runs import Run, all_runs
from ddptui.tui.app import Console
from ddptui.tui.screens import runs as runs_screen
from ddptui.tui.screens.dialogs import Question
from ddptui.tui.screens.result import ResultScreen
from ddptui.tui.screens.runs import RunsScreen
from ddptui.tui.widgets.tables import MARK, RunTable
from tests.support.builders import journal, preset_of, two_trials, write_run
from tests.tui.opened import PATIENCE_S, are_all_listed, each_theme, opened, seen, survives, toasts, until


def a_run(runs: Path, name: str, **fields: Any) -> Run:
    """Its folder has this name, so that its place in the list is known."""
    run = write_run(runs, two_trials(**fields), journal("a"), journal("b"), journal("a", 2), journal("b", 2))
    return Run(run.folder.rename(runs / name))


@pytest.fixture
def three(tmp_path: Path) -> Path:
    for day in (1, 2, 3):
        a_run(tmp_path, f"2026010{day}-120000-made")
    return tmp_path


@asynccontextmanager
async def on_runs(
    runs: Path, size: tuple[int, int] = (120, 40)
) -> AsyncIterator[tuple[Console, Pilot[int], RunsScreen]]:
    """The screen, when all runs are read."""
    screen = RunsScreen()
    async with opened(runs, screen, size) as (app, pilot):
        await until(pilot, lambda: are_all_listed(screen))
        yield app, pilot, screen


def listed(screen: RunsScreen) -> list[str]:
    return [str(row.key.value) for row in screen.query_one(RunTable).ordered_rows]


def marked(screen: RunsScreen) -> list[str]:
    table = screen.query_one(RunTable)
    return [name for name in listed(screen) if str(table.get_row(name)[0]).startswith(MARK)]


async def test_more_runs_than_are_read_at_once_are_all_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs_screen, "BATCH", 2)
    for number in range(5):
        a_run(tmp_path, f"20260101-12000{number}-made")
    async with on_runs(tmp_path) as (app, _, screen):
        assert len(listed(screen)) == 5
        assert "5 runs" in seen(app)


@pytest.mark.parametrize("there", [False, True])
async def test_without_a_run_it_says_what_to_do(tmp_path: Path, there: bool) -> None:
    runs = tmp_path / "[/runs"
    if there:
        runs.mkdir(parents=True)
    async with on_runs(runs, (80, 24)) as (app, pilot, screen):
        assert "No runs yet in" in seen(app)
        await pilot.press("enter", "v", "=", "d", "space", "G", "r")
        await until(pilot, lambda: are_all_listed(screen))
        assert app.screen is screen


async def test_a_run_that_cannot_be_read_is_listed_and_says_why(three: Path) -> None:
    (three / "20260103-120000-made" / "preset.toml").write_text("title = [/")
    async with on_runs(three) as (app, pilot, screen):
        assert len(listed(screen)) == 3
        assert "cannot be read" in seen(app)
        await pilot.press("enter", "v", "space", "down", "=")  # it can be marked, to be deleted
        await until(pilot, lambda: len(toasts(app)) == 3)
        assert app.screen is screen
        assert all("preset.toml" in toast for toast in toasts(app))


async def test_a_folder_that_cannot_be_read_says_why(three: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(runs: Path) -> list[Run]:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(runs_screen, "all_runs", refused)
    async with on_runs(three) as (app, _, _):
        assert f"{three}: Permission denied" in seen(app)


def held_back() -> tuple[threading.Event, Callable[[Path], list[Run]]]:
    """A reading of the runs that ends only once the event is set."""
    released = threading.Event()

    def late(runs: Path) -> list[Run]:
        assert released.wait(PATIENCE_S)
        return all_runs(runs)

    return released, late


async def test_a_new_reading_leaves_the_list_as_it_is_and_what_an_earlier_one_says_is_left_out(
    three: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    released, late = held_back()
    async with on_runs(three) as (app, pilot, screen):
        monkeypatch.setattr(runs_screen, "all_runs", late)
        await pilot.press("end", "r", "r")
        assert len(listed(screen)) == 3
        assert screen.query_one(RunTable).chosen == "20260101-120000-made"
        monkeypatch.setattr(runs_screen, "all_runs", all_runs)
        await pilot.press("r")
        await until(pilot, lambda: are_all_listed(screen))
        released.set()
        await pilot.pause(0.2)
        assert "3 runs" in seen(app)


# Up to date


def status_of(screen: RunsScreen, name: str) -> str:
    return str(screen.query_one(RunTable).get_row(name)[2])


async def test_a_run_that_went_on_on_another_screen_shows_as_it_is_then(tmp_path: Path) -> None:
    run = a_run(tmp_path, "20260101-120000-made")
    finished = run.results(ResultsOutline)
    (run.folder / "results.json").rename(run.folder / "later")
    async with on_runs(tmp_path) as (app, pilot, screen):
        assert status_of(screen, run.name) == "■ interrupted"
        await app.push_screen(RunsScreen())
        (run.folder / "later").rename(run.folder / "results.json")
        await pilot.press("escape")
        await until(pilot, lambda: status_of(screen, run.name) == f"✓ {finished.status}")


async def test_a_run_that_ends_while_its_list_is_open_shows_how_it_ended(tmp_path: Path) -> None:
    run = a_run(tmp_path, "20260101-120000-made")
    async with on_runs(tmp_path) as (app, pilot, screen):
        session = cast(Any, SimpleNamespace(run=run, preset=run.preset(), results=None))
        app.session = session
        await pilot.press("r")
        await until(pilot, lambda: status_of(screen, run.name) == "▸ under way")
        app.run_ended(session)
        await until(pilot, lambda: status_of(screen, run.name) == "✓ ok")


# Two runs


def is_of_two_runs(screen: Screen[object]) -> bool:
    return isinstance(screen, ResultScreen) and screen.results.of_two_runs and screen.is_mounted


async def test_a_filter_leaves_what_fits_and_marked_ones_and_esc_goes_out_by_one_layer(three: Path) -> None:
    """Else `=` would compare, and `d` delete, what cannot be seen."""
    async with on_runs(three) as (app, pilot, screen):
        await pilot.press("space", "slash", *"0101", "enter")
        await until(pilot, lambda: len(listed(screen)) == 2)
        assert listed(screen) == ["20260103-120000-made", "20260101-120000-made"]
        assert marked(screen) == ["20260103-120000-made"]
        assert "2 of 3 runs, 1 marked" in seen(app)
        await pilot.press("home", "space")
        await until(pilot, lambda: listed(screen) == ["20260101-120000-made"])
        await pilot.press("escape")
        await pilot.press("slash", *"0102", "enter")
        assert listed(screen) == ["20260102-120000-made"]
        assert "1 of 3 runs" in seen(app)
        await pilot.press("slash", *"zz")
        assert 'No run matches "zz".' in seen(app)
        await pilot.press("escape")
        assert len(listed(screen)) == 3
        await pilot.press("escape")
        assert app.screen is not screen


async def test_the_marked_ones_or_the_chosen_one_are_compared_the_older_first(three: Path) -> None:
    a_run(three, "20260104-120000-made", defaults={"epochs": 1})
    async with on_runs(three) as (app, pilot, screen):
        for keys in (["space", "down", "="], ["space", "="]):  # one that is marked and the chosen one; both marked
            await pilot.press(*keys)
            await until(pilot, lambda: is_of_two_runs(app.screen))
            assert isinstance(app.screen, ResultScreen)
            shown = " ".join(seen(app).split())
            assert "A: 20260103-120000-made, B: 20260104-120000-made" in shown
            assert "B:a and B:b took as long as run A, as far as 2 repeats can tell." in shown
            assert app.screen.results.differences == ["all trials: epochs: 3 in A, 1 in B"]
            await pilot.press("escape")
            assert app.screen is screen


async def test_a_run_is_replayed_and_a_complete_one_not_resumed(three: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    resumed: list[object] = []
    monkeypatch.setattr(Console, "resume", lambda app, begin: resumed.append(begin))
    (three / "20260102-120000-made" / "results.json").unlink()
    replayed: list[str] = []
    monkeypatch.setattr(Console, "replay", lambda app, run: replayed.append(run.name))
    async with on_runs(three) as (app, pilot, _):
        await pilot.press("R")
        await until(pilot, lambda: toasts(app) == ["This run is complete: nothing is missing."])
        assert not resumed
        await pilot.press("down", "R")
        await until(pilot, lambda: resumed)
        await pilot.press("up")
        await pilot.press("v")
        assert replayed == ["20260103-120000-made"]


async def test_a_training_is_not_compared_with_primitives(three: Path) -> None:
    preset = preset_of({"kind": "primitives", "defaults": {"primitives": "see"}, "trial": [{"name": "a"}]})
    Run(write_run(three, preset).folder.rename(three / "20260104-120000-made"))
    async with on_runs(three) as (app, pilot, screen):
        await pilot.press("space", "down", "=")
        await until(pilot, lambda: toasts(app))
        [toast] = toasts(app)
        assert "20260104-120000-made ran primitives, the other run trained" in toast
        assert app.screen is screen


async def test_any_number_is_marked_and_two_are_compared(three: Path) -> None:
    async with on_runs(three) as (app, pilot, screen):
        await pilot.press("=", "space", "=")
        await app.workers.wait_for_complete()
        assert app.screen is screen
        assert len(toasts(app)) == 2
        await pilot.press("space")
        await pilot.press("space", "down", "space", "down", "space", "=")
        await until(pilot, lambda: len(toasts(app)) == 3)
        assert toasts(app)[-1] == "3 runs are marked; mark only two."
        assert len(marked(screen)) == 3
        await pilot.press("space", "=")
        await until(pilot, lambda: is_of_two_runs(app.screen))


# Deleting


async def delete(pilot: Pilot[int], *names: str) -> None:
    """Press d, and answer yes once the question names these."""
    await pilot.press("d")
    await until(pilot, lambda: all(name in seen(pilot.app) for name in ("Delete", *names)))
    await pilot.press("y")
    await pilot.app.workers.wait_for_complete()


async def test_marked_runs_are_deleted_and_come_back_together_and_the_last_deleted_first(three: Path) -> None:
    async with on_runs(three) as (app, pilot, screen):
        await pilot.press("space", "down", "space", "end")
        await delete(pilot, "2 marked runs", "20260103-120000-made", "20260102-120000-made")
        assert listed(screen) == [run.name for run in all_runs(three)] == ["20260101-120000-made"]
        assert marked(screen) == []
        await pilot.press("u")
        await until(pilot, lambda: len(listed(screen)) == 3)
        await app.workers.wait_for_complete()
        assert listed(screen) == [run.name for run in all_runs(three)]
        await pilot.press("home")
        for _ in range(2):
            await delete(pilot)
        for back in ("20260102-120000-made", "20260103-120000-made"):
            await pilot.press("u")
            await until(pilot, lambda back=back: screen.query_one(RunTable).chosen == back)
            await app.workers.wait_for_complete()
        assert len(listed(screen)) == 3
        await pilot.press("u")
        await until(pilot, lambda: any("nothing in the trash" in toast for toast in toasts(app)))


async def test_a_run_that_a_console_holds_is_not_deleted(three: Path) -> None:
    async with on_runs(three) as (app, pilot, screen):
        with Run(three / "20260103-120000-made").held():
            await delete(pilot)
        assert len(listed(screen)) == 3
        assert "a console is running it" in toasts(app)[0]
        app.session = cast(Any, SimpleNamespace(run=Run(three / "20260103-120000-made"), is_over=True))
        await pilot.press("r")
        await until(pilot, lambda: are_all_listed(screen))
        assert "▸ under way" in seen(app)
        await pilot.press("d")
        await until(pilot, lambda: len(toasts(app)) == 2)
        assert not isinstance(app.screen, Question)
        app.session = None


async def test_a_run_is_deleted_only_after_a_question_and_the_cursor_stays_at_its_place(three: Path) -> None:
    async with on_runs(three) as (app, pilot, screen):
        table = screen.query_one(RunTable)
        for answer, left, then in (("n", 3, "20260102"), ("y", 2, "20260101"), ("y", 1, "20260103")):
            if left == 3:
                await pilot.press("down")
            name = str(table.chosen)
            await pilot.press("d")
            assert f"Delete {name}" in seen(app)
            await pilot.press(answer)
            await until(pilot, lambda: app.screen is screen)
            await app.workers.wait_for_complete()
            await until(pilot, lambda: are_all_listed(screen))
            assert (name in listed(screen)) == (three / name).is_dir() == (answer == "n")
            assert len(listed(screen)) == left
            assert str(table.chosen).startswith(then)


async def test_the_newest_run_is_first_and_enter_opens_the_chosen_one(three: Path) -> None:
    async with on_runs(three, (80, 24)) as (app, pilot, screen):
        table = screen.query_one(RunTable)
        await pilot.press("end")
        assert table.chosen == "20260101-120000-made"
        await pilot.press("home")
        assert table.chosen == "20260103-120000-made"
        footer = seen(app).splitlines()[-1]
        assert all(words in footer for words in ("⏎ Open", "= Compare", "d Delete", "esc Back", "? Help"))
        assert "baseline s" in seen(app)
        shown = {binding.binding.action for binding in screen.active_bindings.values() if binding.binding.show}
        assert len(shown - {"command_palette"}) <= 6, shown
        assert listed(screen) == ["20260103-120000-made", "20260102-120000-made", "20260101-120000-made"]
        assert "2026-01-03 12:00" in seen(app)
        await pilot.press("j", "enter")
        await until(pilot, lambda: isinstance(app.screen, ResultScreen))
        assert cast(ResultScreen, app.screen).run.name == "20260102-120000-made"
        await pilot.press("escape")
        assert app.screen is screen
        assert screen.query_one(RunTable).chosen == "20260102-120000-made"


@each_theme
async def test_it_survives_every_theme_and_size(themes: Iterable[str], three: Path) -> None:
    async with on_runs(three) as (_, pilot, _):
        await survives(pilot, themes, "2026-01-03 12:00")
