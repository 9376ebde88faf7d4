"""What the console does with the user's settings: the theme is kept, columns stay in sight, screens keep their rate."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ddptui.config.settings import NO_SETTINGS, Settings
from ddptui.store import settings
from ddptui.store.outcomes import results_of
from ddptui.tui import start as program
from ddptui.tui.app import Console
from ddptui.tui.screens.result import ResultScreen
from ddptui.tui.screens.run import RunScreen
from ddptui.tui.widgets.comparison import Comparison
from tests.support.builders import journal, two_trials, write_run
from tests.tui.opened import Opened, opened, toasts, until
from tests.tui.recordings import moment_s, playback


def test_a_theme_that_is_chosen_on_a_screen_is_written_into_the_file(tmp_path: Path) -> None:
    file = settings.path()
    file.parent.mkdir(parents=True)
    file.write_text('# mine\n\nrefresh = 2  # slow\n[keys]\nplay = "a"\n')

    async def session() -> None:
        async with opened(tmp_path / "runs") as (app, pilot):
            app.theme = "nord"
            await until(pilot, lambda: settings.load().theme == "nord")

    asyncio.run(session())
    assert file.read_text() == '# mine\n\ntheme = "nord"\nrefresh = 2  # slow\n[keys]\nplay = "a"\n'
    assert not file.with_name("console.json").exists()


def test_a_theme_that_cannot_be_kept_is_told_and_stays_for_the_session(tmp_path: Path) -> None:
    file = settings.path()
    file.parent.mkdir(parents=True)

    async def session() -> None:
        async with opened(tmp_path / "runs") as (app, pilot):
            file.write_text("theme = ")  # in an editor, meanwhile
            app.theme = "nord"
            await until(pilot, lambda: toasts(app))
            [toast] = toasts(app)
            assert "the theme cannot be saved: not valid TOML" in toast
            assert app.theme == "nord"

    asyncio.run(session())
    assert file.read_text() == "theme = "


@pytest.mark.parametrize(
    ("columns", "named", "shown", "dropped"),
    [
        ((), (), "train", "startup"),
        (("startup",), (), "startup", "samples"),
        (("startup",), ("samples",), "startup", "step"),
        (("startup", "overlap", "step"), ("samples",), "samples", "overlap"),
    ],
)
def test_columns_of_the_settings_stay_in_sight_beside_those_of_the_preset(
    columns: tuple[str, ...], named: tuple[str, ...], shown: str, dropped: str, tmp_path: Path
) -> None:
    preset = two_trials(columns=[*named])
    run = write_run(tmp_path / "runs", preset, journal("a"), journal("b", step_ms=20))

    async def session() -> None:
        app = Opened(tmp_path / "runs", ResultScreen(run, preset, results_of(run, preset)))
        app.settings = Settings(columns=columns)
        async with app.run_test(size=(60, 20)) as pilot:
            await app.mounted
            table = app.screen.query_one(Comparison)
            await until(pilot, lambda: table.shown)
            assert shown in table.shown
            assert dropped not in table.shown

    asyncio.run(session())


def test_columns_of_the_settings_stay_in_sight_while_a_run_goes_on(tmp_path: Path) -> None:
    told = playback()
    told.seek(moment_s(told, "late", 60))

    async def session(columns: tuple[str, ...]) -> list[str]:
        screen = RunScreen(told)
        app = Opened(tmp_path / "runs", screen)
        app.settings = Settings(columns=columns)
        async with app.run_test(size=(120, 40)) as pilot:
            await app.mounted
            screen.tick()
            await pilot.press("2")
            table = screen.query_one(Comparison)
            await until(pilot, lambda: table.shown)
            return table.shown

    without, with_it = (asyncio.run(session(columns)) for columns in ((), ("launch",)))
    assert "launch" not in without
    assert "launch" in with_it


@pytest.mark.parametrize(
    ("kept", "typed", "rate", "theme"),
    [
        (NO_SETTINGS, {}, 4, "textual-dark"),
        (Settings(theme="nord", refresh=8.0), {}, 8, "nord"),
        (Settings(theme="nord", refresh=8.0), {"refreshes_per_s": 2.0, "theme": "dracula"}, 2, "dracula"),
    ],
)
def test_the_console_starts_as_the_settings_say_unless_the_command_line_says_more(
    kept: Settings, typed: dict[str, Any], rate: float, theme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[tuple[float, str, Settings]] = []

    def run(app: Console) -> None:
        started.append((1 / app.refresh_s, app.theme, app.settings))

    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    monkeypatch.setattr(Console, "run", run)
    monkeypatch.setattr(program, "give_way", lambda: None)  # it changes the process that runs the tests
    assert program.start(tmp_path, None, settings=kept, **typed) == 0
    assert started == [(rate, theme, kept)]
