"""One letter has one meaning on all screens, and the user may choose another one."""

import asyncio
import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from textual.binding import Binding, BindingsMap
from textual.screen import ModalScreen
from textual.widget import Widget

from ddptui.config.settings import KEYS, Settings
from ddptui.tui import screens, widgets
from ddptui.tui.app import Console
from ddptui.tui.keys import keymap
from ddptui.tui.screens.lab import Lab
from ddptui.tui.screens.run import RunScreen
from ddptui.tui.widgets.lists import PresetChooser
from tests.tui.opened import opened, seen, until
from tests.tui.recordings import ToldAsItGoes, moment_s, playback


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


def test_a_letter_with_another_meaning_is_found() -> None:
    other = Binding("x", "stop", "Stop", id="stop")
    assert wrong_letters(iter([("RunScreen", "x", other), ("RunScreen", "Q", Binding("Q", "a"))])) == [
        "RunScreen: x",
        "RunScreen: Q",
    ]


def test_every_meaning_has_a_screen() -> None:
    bound = {each.id for _, _, each in bindings()} | {each.id for each in Console.BINDINGS if isinstance(each, Binding)}
    assert {*KEYS} <= bound


@pytest.mark.parametrize("keys", [("k",), ("f6", "%")])
def test_the_users_keys_take_the_place_of_ours(keys: tuple[str, ...], tmp_path: Path) -> None:
    async def check() -> None:
        told = playback()
        told.seek(moment_s(told, "none", 30))
        screen = RunScreen(ToldAsItGoes(told))
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
            await until(pilot, lambda: f" {keys[0]} Delay" in seen(app))

    asyncio.run(check())


def test_the_console_takes_them_from_the_settings(tmp_path: Path) -> None:
    async def check() -> None:
        app = Console(tmp_path, settings=Settings(keys={"runs": ("%",)}))
        async with app.run_test() as pilot:
            await until(pilot, lambda: "Filter" in seen(app))
            await pilot.press("%")
            await until(pilot, lambda: "filter by name" in seen(app))

    asyncio.run(check())


def test_an_arrow_stays_when_the_letter_beside_it_changes(tmp_path: Path) -> None:
    async def check() -> None:
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

    asyncio.run(check())


def test_texts_name_the_users_keys(tmp_path: Path) -> None:
    async def check() -> None:
        app = Console(tmp_path, settings=Settings(keys={"help": ("%",), "quit": ("&",), "copy": ("ctrl+y",)}))
        async with app.run_test(size=(120, 40)) as pilot:
            await until(pilot, lambda: "ctrl+y: copy" in seen(app))
            await pilot.press("%")
            await until(pilot, lambda: "f1 %" in seen(app))
            assert "^q &" in seen(app)

    asyncio.run(check())
