"""The Runs screen, and two runs side by side."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from textual.events import AppBlur, AppFocus
from textual.pilot import Pilot
from textual.screen import Screen

from ddptui.analysis.outline import ResultsOutline
from ddptui.store.runs import Run, all_runs
from ddptui.tui.app import Console
from ddptui.tui.screens import runs as runs_screen
from ddptui.tui.screens.dialogs import Question
from ddptui.tui.screens.result import ResultScreen
from ddptui.tui.screens.runs import RunsScreen
from ddptui.tui.widgets.tables import MARK, LabTable, RunTable
from tests.support.builders import ended, journal, preset_of, results_for, two_trials, write_run
from tests.tui.opened import each_theme, opened, seen, toasts, until
from tests.tui.two_runs import compare_screen

Scenario = Callable[[Console, Pilot[int], RunsScreen], Coroutine[None, None, None]]


def a_run(runs: Path, name: str, **fields: Any) -> Run:
    """Its folder has this name, so that its place in the list is known."""
    run = write_run(runs, two_trials(**fields), journal("a"), journal("b"), journal("a", 2), journal("b", 2))
    return Run(run.folder.rename(runs / name))


@pytest.fixture
def three(tmp_path: Path) -> Path:
    for day in (1, 2, 3):
        a_run(tmp_path, f"2026010{day}-120000-made")
    return tmp_path


def play(runs: Path, scenario: Scenario, size: tuple[int, int] = (120, 40)) -> None:
    """Begins when all runs are read."""

    async def played() -> None:
        screen = RunsScreen()
        async with opened(runs, screen, size) as (app, pilot):
            await until(pilot, lambda: screen._complete)
            await scenario(app, pilot, screen)

    asyncio.run(played())


def listed(screen: RunsScreen) -> list[str]:
    return [str(row.key.value) for row in screen.query_one(RunTable).ordered_rows]


def marked(screen: RunsScreen) -> list[str]:
    table = screen.query_one(RunTable)
    return [name for name in listed(screen) if str(table.get_row(name)[0]).startswith(MARK)]


def test_the_newest_run_is_first_and_enter_opens_the_chosen_one(three: Path) -> None:
    async def scenario(app: Console, pilot: Pilot[int], screen: RunsScreen) -> None:
        assert listed(screen) == ["20260103-120000-made", "20260102-120000-made", "20260101-120000-made"]
        assert "2026-01-03 12:00" in seen(app)
        await pilot.press("j", "enter")
        await until(pilot, lambda: isinstance(app.screen, ResultScreen))
        assert cast(ResultScreen, app.screen).run.name == "20260102-120000-made"
        await pilot.press("escape")
        await pilot.pause()
        assert app.screen is screen
        assert screen.query_one(RunTable).chosen == "20260102-120000-made"

    play(three, scenario)


def test_more_runs_than_are_read_at_once_are_all_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs_screen, "BATCH", 2)
    for number in range(5):
        a_run(tmp_path, f"20260101-12000{number}-made")

    async def scenario(app: Console, pilot: Pilot[int], screen: RunsScreen) -> None:
        assert len(listed(screen)) == 5
        assert "5 runs" in seen(app)

    play(tmp_path, scenario)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
@pytest.mark.parametrize("there", [False, True])
def test_without_a_run_it_says_what_to_do(tmp_path: Path, there: bool, size: tuple[int, int]) -> None:
    runs = tmp_path / "[/runs"
    if there:
        runs.mkdir(parents=True)

    async def scenario(app: Console, pilot: Pilot[int], screen: RunsScreen) -> None:
        assert "No runs yet in" in seen(app)
        await pilot.press("enter", "v", "=", "d", "space", "G", "r")
        await until(pilot, lambda: screen._complete)
        assert app.screen is screen

    play(runs, scenario, size)


def test_a_filter_leaves_what_fits_and_esc_goes_out_by_one_layer(three: Path) -> None:
    async def scenario(app: Console, pilot: Pilot[int], screen: RunsScreen) -> None:
        await pilot.press("slash", *"0102", "enter")
        await pilot.pause()
        assert listed(screen) == ["20260102-120000-made"]
        assert "1 of 3 runs" in seen(app)
        await pilot.press("slash", *"zz")
        await pilot.pause()
        assert 'No run matches "zz".' in seen(app)
        await pilot.press("escape")
        await pilot.pause()
        assert len(listed(screen)) == 3
        await pilot.press("escape")
        await pilot.pause()
        assert app.screen is not screen

    play(three, scenario)


def test_a_run_that_cannot_be_read_is_listed_and_says_why(three: Path) -> None:
    (three / "20260103-120000-made" / "preset.toml").write_text("title = [/")

    async def scenario(app: Console, pilot: Pilot[int], screen: RunsScreen) -> None:
        assert len(listed(screen)) == 3
        assert "cannot be read" in seen(app)
        await pilot.press("enter", "v", "space", "down", "=")  # it can be marked, to be deleted
        await until(pilot, lambda: len(toasts(app)) == 3)
        assert app.screen is screen
        assert all("preset.toml" in toast for toast in toasts(app))

    play(three, scenario)


def test_a_folder_that_cannot_be_read_says_why(three: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(runs: Path) -> list[Run]:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(runs_screen, "all_runs", refused)

    async def scenario(app: Console, pilot: Pilot[int], screen: RunsScreen) -> None:
        assert f"{three}: Permission denied" in seen(app)

    play(three, scenario)


def held_back() -> tuple[threading.Event, Callable[[Path], list[Run]]]:
    """A reading of the runs that ends only once the event is set."""
    released = threading.Event()

    def late(runs: Path) -> list[Run]:
        assert released.wait(10)
        return all_runs(runs)

    return released, late


def test_what_an_earlier_reading_still_has_to_say_is_left_out(three: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    released, late = held_back()

    async def scenario(app: Console, pilot: Pilot[int], screen: RunsScreen) -> None:
        monkeypatch.setattr(runs_screen, "all_runs", late)
        await pilot.press("r", "r")
        monkeypatch.setattr(runs_screen, "all_runs", all_runs)
        await pilot.press("r")
        await until(pilot, lambda: screen._complete)
        released.set()
        await pilot.pause(0.2)
        assert "3 runs" in seen(app)

    play(three, scenario)


def test_a_run_is_replayed(three: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replayed: list[str] = []
    monkeypatch.setattr(Console, "replay", lambda app, run: replayed.append(run.name))

    async def scenario(app: Console, pilot: Pilot[int], screen: RunsScreen) -> None:
        await pilot.press("v")
        assert replayed == ["20260103-120000-made"]

    play(three, scenario)


# Up to date


def status_of(screen: RunsScreen, name: str) -> str:
    return str(screen.query_one(RunTable).get_row(name)[2])


def test_a_run_that_went_on_on_another_screen_shows_as_it_is_then(tmp_path: Path) -> None:
    run = a_run(tmp_path, "20260101-120000-made")
    finished = run.results(ResultsOutline)
    (run.folder / "results.json").rename(run.folder / "later")

    async def scenario(app: Console, pilot: Pilot[int], screen: RunsScreen) -> None:
        assert status_of(screen, run.name) == "■ interrupted"
        await app.push_screen(RunsScreen())
        (run.folder / "later").rename(run.folder / "results.json")
        await pilot.press("escape")
        await until(pilot, lambda: status_of(screen, run.name) == f"✓ {finished.status}")

    play(tmp_path, scenario)


def test_nothing_is_read_on_for_a_screen_that_was_left(three: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    released, late = held_back()

    async def scenario(app: Console, pilot: Pilot[int], screen: RunsScreen) -> None:
        monkeypatch.setattr(runs_screen, "all_runs", late)
        await app.push_screen(left := RunsScreen())
        await until(pilot, lambda: any(worker.node is left for worker in app.workers))
        reading = next(worker for worker in app.workers if worker.node is left)
        app.pop_screen()  # Textual removes the widgets of the screen only later, and cancels its workers after that
        assert reading.is_cancelled
        assert not any(worker.is_cancelled for worker in app.workers if worker.node is screen)
        released.set()
        await until(pilot, lambda: screen._complete)

    play(three, scenario)


def test_a_run_with_a_skipped_trial_is_not_shown_as_ok(tmp_path: Path) -> None:
    skipped = [*journal("b")[:-3], ended("skipped")]
    run = write_run(tmp_path, two_trials(), journal("a"), skipped, journal("a", 2))

    async def scenario(app: Console, pilot: Pilot[int], screen: RunsScreen) -> None:
        assert status_of(screen, run.name) == "■ trials skipped"

    play(tmp_path, scenario)


def test_a_run_that_ends_while_its_list_is_open_shows_how_it_ended(tmp_path: Path) -> None:
    run = a_run(tmp_path, "20260101-120000-made")

    async def scenario(app: Console, pilot: Pilot[int], screen: RunsScreen) -> None:
        session = cast(Any, SimpleNamespace(run=run, preset=run.preset(), results=None))
        app.session = session
        await pilot.press("r")
        await until(pilot, lambda: status_of(screen, run.name) == "▸ under way")
        app.run_ended(session)
        await until(pilot, lambda: status_of(screen, run.name) == "✓ ok")

    play(tmp_path, scenario)


def test_a_new_reading_leaves_the_list_and_the_cursor_as_they_are(three: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    released, late = held_back()

    async def scenario(app: Console, pilot: Pilot[int], screen: RunsScreen) -> None:
        monkeypatch.setattr(runs_screen, "all_runs", late)
        await pilot.press("end", "r")
        await pilot.pause()
        assert len(listed(screen)) == 3
        assert screen.query_one(RunTable).chosen == "20260101-120000-made"
        released.set()

    play(three, scenario)


# Two runs


def is_of_two_runs(screen: Screen[object]) -> bool:
    return isinstance(screen, ResultScreen) and screen.results.of_two_runs and screen.is_mounted


def test_any_number_is_marked_and_two_are_compared(three: Path) -> None:
    async def scenario(app: Console, pilot: Pilot[int], screen: RunsScreen) -> None:
        await pilot.press("space", "down", "space", "down", "space", "=")
        await until(pilot, lambda: toasts(app))
        assert toasts(app) == ["3 runs are marked; mark only two."]
        assert len(marked(screen)) == 3
        await pilot.press("space", "=")
        await until(pilot, lambda: is_of_two_runs(app.screen))

    play(three, scenario)


def test_a_marked_run_shows_whatever_the_filter_is(three: Path) -> None:
    """Else `c` would compare, and `d` delete, what cannot be seen."""

    async def scenario(app: Console, pilot: Pilot[int], screen: RunsScreen) -> None:
        await pilot.press("space", "slash", *"0101", "enter")
        await until(pilot, lambda: len(listed(screen)) == 2)
        assert listed(screen) == ["20260103-120000-made", "20260101-120000-made"]
        assert marked(screen) == ["20260103-120000-made"]
        assert "2 of 3 runs, 1 marked" in seen(app)
        await pilot.press("home", "space")
        await until(pilot, lambda: listed(screen) == ["20260101-120000-made"])

    play(three, scenario)


@pytest.mark.parametrize("keys", [["space", "down", "space", "down", "="], ["space", "down", "="]])
def test_the_marked_ones_or_the_chosen_one_are_compared_the_older_first(three: Path, keys: list[str]) -> None:
    a_run(three, "20260104-120000-made", defaults={"epochs": 1})

    async def scenario(app: Console, pilot: Pilot[int], screen: RunsScreen) -> None:
        await pilot.press(*keys)
        await until(pilot, lambda: is_of_two_runs(app.screen))
        await pilot.pause()
        shown = " ".join(seen(app).split())
        assert "A: 20260103-120000-made, B: 20260104-120000-made" in shown
        assert "B:a and B:b took as long as run A, as far as 2 repeats can tell." in shown
        assert isinstance(app.screen, ResultScreen)
        assert app.screen.results.differences == ["all trials: epochs: 3 in A, 1 in B"]
        for width, height in ((1, 1), (200, 3), (80, 24)):
            await pilot.resize_terminal(width, height)
            await pilot.pause()
        await pilot.press("escape")
        assert app.screen is screen

    play(three, scenario)


def test_a_comparison_takes_keys_although_it_opened_in_the_background(three: Path) -> None:
    results = results_for(two_trials(), journal("a"), journal("b"))

    async def scenario(app: Console, pilot: Pilot[int], screen: RunsScreen) -> None:
        app.post_message(AppBlur())
        await until(pilot, lambda: not app.app_focus)
        await app.push_screen(compare_screen(results, results))
        app.post_message(AppFocus())
        await until(pilot, lambda: app.app_focus)
        assert app.screen.focused is app.screen.query_one(LabTable)

    play(three, scenario)


def test_a_complete_run_is_not_resumed(three: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    resumed: list[object] = []
    monkeypatch.setattr(Console, "resume", lambda app, begin: resumed.append(begin))
    (three / "20260102-120000-made" / "results.json").unlink()

    async def scenario(app: Console, pilot: Pilot[int], screen: RunsScreen) -> None:
        await pilot.press("R")
        await until(pilot, lambda: toasts(app) == ["This run is complete: nothing is missing."])
        assert not resumed
        await pilot.press("down", "R")
        await until(pilot, lambda: resumed)

    play(three, scenario)


def test_a_training_is_not_compared_with_primitives(three: Path) -> None:
    preset = preset_of({"kind": "primitives", "defaults": {"primitives": "see"}, "trial": [{"name": "a"}]})
    Run(write_run(three, preset).folder.rename(three / "20260104-120000-made"))

    async def scenario(app: Console, pilot: Pilot[int], screen: RunsScreen) -> None:
        await pilot.press("space", "down", "=")
        await until(pilot, lambda: toasts(app))
        [toast] = toasts(app)
        assert "20260104-120000-made ran primitives, the other run trained" in toast
        assert app.screen is screen

    play(three, scenario)


def test_a_run_is_not_compared_with_itself(three: Path) -> None:
    async def scenario(app: Console, pilot: Pilot[int], screen: RunsScreen) -> None:
        await pilot.press("=", "space", "=")
        await app.workers.wait_for_complete()
        assert app.screen is screen
        assert len(toasts(app)) == 2

    play(three, scenario)


# Deleting


async def delete(pilot: Pilot[int], *names: str) -> None:
    """Press d, and answer yes once the question names these."""
    await pilot.press("d")
    await until(pilot, lambda: all(name in seen(pilot.app) for name in ("Delete", *names)))
    await pilot.press("y")
    await pilot.app.workers.wait_for_complete()


def test_the_marked_runs_are_deleted_not_the_chosen_one_and_come_back_together(three: Path) -> None:
    async def scenario(app: Console, pilot: Pilot[int], screen: RunsScreen) -> None:
        await pilot.press("space", "down", "space", "end")
        await delete(pilot, "2 marked runs", "20260103-120000-made", "20260102-120000-made")
        assert listed(screen) == [run.name for run in all_runs(three)] == ["20260101-120000-made"]
        assert marked(screen) == []
        await pilot.press("u")
        await until(pilot, lambda: len(listed(screen)) == 3)
        await app.workers.wait_for_complete()
        assert listed(screen) == [run.name for run in all_runs(three)]

    play(three, scenario)


def test_what_was_deleted_last_comes_back_first_and_then_there_is_nothing(three: Path) -> None:
    async def scenario(app: Console, pilot: Pilot[int], screen: RunsScreen) -> None:
        for _ in range(2):
            await delete(pilot)
        for back in ("20260102-120000-made", "20260103-120000-made"):
            await pilot.press("u")
            await until(pilot, lambda back=back: screen.query_one(RunTable).chosen == back)
            await app.workers.wait_for_complete()
        assert len(listed(screen)) == 3
        await pilot.press("u")
        await until(pilot, lambda: any("nothing in the trash" in toast for toast in toasts(app)))

    play(three, scenario)


def test_a_run_that_another_console_holds_stays_in_the_list(three: Path) -> None:
    async def scenario(app: Console, pilot: Pilot[int], screen: RunsScreen) -> None:
        with Run(three / "20260103-120000-made").held():
            await delete(pilot)
        assert len(listed(screen)) == 3
        assert "a console is running it" in toasts(app)[0]

    play(three, scenario)


@pytest.mark.parametrize("answer", ["n", "y"])
def test_a_run_is_deleted_only_after_a_question(three: Path, answer: str) -> None:
    async def scenario(app: Console, pilot: Pilot[int], screen: RunsScreen) -> None:
        await pilot.press("down", "d")
        await pilot.pause()
        assert "Delete 20260102-120000-made" in seen(app)
        await pilot.press(answer)
        await until(pilot, lambda: app.screen is screen)
        await app.workers.wait_for_complete()
        await until(pilot, lambda: screen._complete)
        assert ("20260102-120000-made" in listed(screen)) == (answer == "n")
        assert (three / "20260102-120000-made").is_dir() == (answer == "n")
        assert len(listed(screen)) == (3 if answer == "n" else 2)

    play(three, scenario)


def test_after_deleting_the_cursor_stays_at_its_place(three: Path) -> None:
    a_run(three, "20260104-120000-made")

    async def scenario(app: Console, pilot: Pilot[int], screen: RunsScreen) -> None:
        table = screen.query_one(RunTable)
        for keys, then in (("jj", "20260101-120000-made"), ("", "20260103-120000-made")):
            await pilot.press(*keys, "d", "y")
            await until(pilot, lambda: app.screen is screen)
            await app.workers.wait_for_complete()
            assert table.chosen == then
        assert listed(screen) == ["20260104-120000-made", "20260103-120000-made"]

    play(three, scenario)


def test_the_first_and_the_last_run_are_a_key_away_and_the_keys_are_shown(three: Path) -> None:
    async def scenario(app: Console, pilot: Pilot[int], screen: RunsScreen) -> None:
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

    play(three, scenario, (80, 24))


def test_the_run_that_is_under_way_cannot_be_deleted(three: Path) -> None:
    async def scenario(app: Console, pilot: Pilot[int], screen: RunsScreen) -> None:
        app.session = cast(Any, SimpleNamespace(run=Run(three / "20260103-120000-made"), is_over=True))
        await pilot.press("r")
        await until(pilot, lambda: screen._complete)
        assert "▸ under way" in seen(app)
        await pilot.press("d")
        await until(pilot, lambda: toasts(app))
        assert not isinstance(app.screen, Question)
        assert len(toasts(app)) == 1
        app.session = None

    play(three, scenario)


def test_it_survives_any_size(three: Path) -> None:
    async def scenario(app: Console, pilot: Pilot[int], screen: RunsScreen) -> None:
        for width, height in ((1, 1), (30, 60), (200, 3), (80, 24)):
            await pilot.resize_terminal(width, height)
            await pilot.pause()
        assert "2026-01-03 12:00" in seen(app)

    play(three, scenario)


@each_theme
def test_it_survives_every_theme(themes: Iterable[str], three: Path) -> None:
    async def scenario(app: Console, pilot: Pilot[int], screen: RunsScreen) -> None:
        for theme in themes:
            app.theme = theme
            await pilot.pause()
            assert "2026-01-03 12:00" in seen(app)

    play(three, scenario)
