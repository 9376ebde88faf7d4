"""One letter has one meaning on all screens, and the user may choose another one."""

import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.binding import Binding, BindingsMap
from textual.screen import ModalScreen, Screen
from textual.widget import Widget

from ddptui.config.settings import KEYS, NO_SETTINGS, Settings
from ddptui.store import settings
from ddptui.store.overview import results_of
from ddptui.tui import screens, widgets
from ddptui.tui import start as program
from ddptui.tui.app import Console
from ddptui.tui.keys import keymap
from ddptui.tui.screens.lab import Lab
from ddptui.tui.screens.result import ResultScreen
from ddptui.tui.screens.run import RunScreen
from ddptui.tui.widgets.lists import PresetChooser
from ddptui.tui.widgets.result_panes import Comparison
from tests.support.builders import journal, two_trials, write_run
from tests.tui.opened import Opened, on, opened, shows, toasts, until
from tests.tui.recordings import ToldAsItGoes, at


def bindings() -> Iterator[tuple[str, str, Binding]]:
    """Each binding of a screen or a widget of ours, with its class and its key. Dialogs are left out: their letters are
    the initials of their buttons."""
    for room in (screens, widgets):
        for module in pkgutil.iter_modules(room.__path__, f"{room.__name__}."):
            for thing in vars(importlib.import_module(module.name)).values():
                if isinstance(thing, type) and thing.__module__ == module.name and issubclass(thing, (Widget, Console)):
                    if issubclass(thing, ModalScreen):
                        continue
                    for key, bound in BindingsMap(vars(thing).get("BINDINGS", ())).key_to_bindings.items():
                        yield from ((thing.__name__, key, each) for each in bound)


def usual(means: str) -> set[str]:
    return set(BindingsMap([Binding(keymap({means: (KEYS[means].usual,)})[means], "", "")]).key_to_bindings)


def wrong_letters(found: Iterator[tuple[str, str, Binding]]) -> list[str]:
    """Letters and signs that a class binds by itself, and not by what they mean."""
    by_meaning = {key: means for means in KEYS for key in usual(means)}
    return [
        f"{name}: {key}"
        for name, key, bound in found
        if ((len(key) == 1 and key.isalpha()) or key in by_meaning) and by_meaning.get(key, "") != bound.id
    ]


def test_a_letter_is_bound_by_what_it_means() -> None:
    found = list(bindings())
    assert len({name for name, _, _ in found}) > 10
    assert wrong_letters(iter(found)) == []


def test_every_meaning_has_a_screen() -> None:
    bound = {each.id for _, _, each in bindings()} | {each.id for each in Console.BINDINGS if isinstance(each, Binding)}
    assert {*KEYS} <= bound


@pytest.mark.parametrize("keys", [("k",), ("f6", "%")])
async def test_the_users_keys_take_the_place_of_ours(keys: tuple[str, ...], tmp_path: Path) -> None:
    screen = RunScreen(ToldAsItGoes(at("none", 30)))
    chosen = {"delay": keys, "up": ("K",), "more": ("ctrl+u",)}
    async with opened(tmp_path, screen) as (app, pilot):
        app.set_keymap(keymap(chosen))
        screen.tick()
        await pilot.press("b", "ctrl+u")
        launched_ns = screen.watched.live.launched_ns
        assert list(screen.feed.controls.requests(launched_ns)) == []  # type: ignore[union-attr]
        for key in keys:
            await pilot.press(key)
        [first, *_] = list(screen.feed.controls.requests(launched_ns))  # type: ignore[union-attr]
        assert first[0].sleep_ms == 50
        await shows(pilot, f" {keys[0]} Delay")


async def test_the_console_takes_them_from_the_settings_and_its_texts_name_them(tmp_path: Path) -> None:
    keys = {"runs": ("%",), "help": ("!",), "quit": ("&",), "copy": ("ctrl+y",)}
    app = Console(tmp_path, settings=Settings(keys=keys))
    async with app.run_test(size=(120, 40)) as pilot:
        await shows(pilot, "ctrl+y: copy", "Filter")
        await pilot.press("!")
        await shows(pilot, "f1 !", "^q &")
        await pilot.press("escape", "%")
        await shows(pilot, "filter by name")


async def test_an_arrow_stays_when_the_letter_beside_it_changes(tmp_path: Path) -> None:
    app = Console(tmp_path, settings=Settings(keys={"down": ("%",), "right": ("&",)}))
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, Lab) and app.screen.has_class("-list"))
        await until(pilot, lambda: app.screen.query(PresetChooser))
        chooser = app.screen.query_one(PresetChooser)
        await until(pilot, lambda: chooser.highlighted is not None)
        first = chooser.highlighted
        assert first is not None
        await pilot.press("down")
        second = chooser.highlighted
        await pilot.press("%")
        third = chooser.highlighted
        assert first < (second or 0) < (third or 0)
        await pilot.press("j")
        assert chooser.highlighted == third
        await pilot.press("right")
        assert app.screen.has_class("-text")


async def take_a_picture(runs: Path) -> str:
    """Return the toast that follows the palette's command."""
    async with opened(runs) as (app, pilot):
        await pilot.press("ctrl+p", *"screensho", "enter")
        await until(pilot, lambda: toasts(app))
        return toasts(app)[-1]


async def test_a_picture_is_kept_where_exports_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "no-downloads-here"))
    monkeypatch.chdir(tmp_path)
    toast = await take_a_picture(tmp_path / "runs")
    [picture] = tmp_path.glob("ddptui-*.svg")
    assert toast == str(picture)
    assert "playground" in picture.read_text(encoding="utf-8")


async def test_why_no_picture_is_kept_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert "No such file or directory" in await take_a_picture(tmp_path / "runs")


async def test_ctrl_z_says_why_the_console_goes_on() -> None:
    async with on(Screen()) as (app, pilot, _):
        await pilot.press("ctrl+z")
        await until(pilot, lambda: toasts(app))
        assert toasts(app) == [
            "While suspended, it could neither read from the ranks nor end them. Open another terminal."
        ]


async def test_a_theme_that_is_chosen_on_a_screen_is_written_into_the_file() -> None:
    file = settings.path()
    file.parent.mkdir(parents=True)
    file.write_text('# mine\n\nrefresh = 2  # slow\n[keys]\nplay = "a"\n')
    async with on(Screen()) as (app, pilot, _):
        app.theme = "nord"
        await until(pilot, lambda: settings.load().theme == "nord")
    assert file.read_text() == '# mine\n\ntheme = "nord"\nrefresh = 2  # slow\n[keys]\nplay = "a"\n'
    assert not file.with_name("console.json").exists()


async def test_a_theme_that_cannot_be_kept_is_told_and_stays_for_the_session() -> None:
    file = settings.path()
    file.parent.mkdir(parents=True)
    async with on(Screen()) as (app, pilot, _):
        file.write_text("theme = ")  # in an editor, meanwhile
        app.theme = "nord"
        await until(pilot, lambda: toasts(app))
        [toast] = toasts(app)
        assert "the theme cannot be saved: not valid TOML" in toast
        assert app.theme == "nord"
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
async def test_columns_of_the_settings_stay_in_sight_beside_those_of_the_preset(
    columns: tuple[str, ...], named: tuple[str, ...], shown: str, dropped: str, tmp_path: Path
) -> None:
    preset = two_trials(columns=[*named])
    run = write_run(tmp_path / "runs", preset, journal("a"), journal("b", step_ms=20))
    app = Opened(tmp_path / "runs", ResultScreen(run, preset, results_of(run, preset)))
    app.settings = Settings(columns=columns)
    async with app.run_test(size=(60, 20)) as pilot:
        await app.mounted
        table = app.screen.query_one(Comparison)
        await until(pilot, lambda: table.shown)
        assert shown in table.shown
        assert dropped not in table.shown


@pytest.mark.parametrize("columns", [(), ("launch",)])
async def test_columns_of_the_settings_stay_in_sight_while_a_run_goes_on(columns: tuple[str, ...]) -> None:
    app = Opened(Path("no-such-folder"), screen := RunScreen(at("late", 60)))
    app.settings = Settings(columns=columns)
    async with app.run_test(size=(120, 40)) as pilot:
        await app.mounted
        screen.tick()
        await pilot.press("2")
        table = screen.query_one(Comparison)
        await until(pilot, lambda: table.shown)
        assert ("launch" in table.shown) == bool(columns)


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
