"""The console with one of its screens open, and what is to be seen of it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.app import App
from textual.pilot import Pilot
from textual.screen import Screen
from textual.theme import BUILTIN_THEMES
from textual.widgets import Static

from ddptui.tui.app import Console
from ddptui.tui.draft import LINE
from ddptui.tui.screens.following import Following
from ddptui.tui.screens.lab import Lab
from ddptui.tui.screens.runs import RunsScreen
from ddptui.tui.widgets.frame import TitleBar
from ddptui.tui.widgets.lists import PresetList
from ddptui.tui.widgets.trial_form import Field, TrialForm

FEW = ("textual-dark", "textual-light", "ansi-dark")
OTHERS = [theme for theme in BUILTIN_THEMES if theme not in FEW]
# A theme takes a quarter of a second on a screen with many widgets. The primitives' screen is always drawn in all.
each_theme = pytest.mark.parametrize(
    "themes", [pytest.param(FEW, id="few"), pytest.param(OTHERS, id="others", marks=pytest.mark.rare)]
)
PATIENCE_S = 60  # for a machine busy with other things; a test that passes waits no longer than it must


class Opened(Console):
    """Begins with this screen. None: with the lab, which other tests do without: it costs as much as all they do."""

    def __init__(self, runs: Path, begins_with: Screen[None] | None = None, *, refresh_s: float = 0.25) -> None:
        super().__init__(runs, refresh_s=refresh_s)
        self.begins_with = begins_with or Lab()

    def on_mount(self) -> None:  # besides the console's own
        self.mounted = self.push_screen(self.begins_with)


@asynccontextmanager
async def opened(
    runs: Path, screen: Screen[None] | None = None, size: tuple[int, int] = (120, 40), *, watch_load: bool = False
) -> AsyncIterator[tuple[Console, Pilot[int]]]:
    app = Opened(runs, screen)
    app.watch_load = watch_load
    async with app.run_test(size=size) as pilot:
        await app.mounted
        if isinstance(screen, Following):
            screen.tick()
        await pilot.pause()
        yield app, pilot


@asynccontextmanager
async def on(screen: Any, size: tuple[int, int] = (120, 40)) -> AsyncIterator[tuple[Console, Pilot[int], Any]]:
    """The same for a screen that lists no runs."""
    async with opened(Path("no-such-folder"), screen, size) as (app, pilot):
        yield app, pilot, screen


async def tick(pilot: Pilot[int], screen: Any) -> None:
    """Do what the timer of the screen would do."""
    screen.tick()
    await pilot.pause()


@asynccontextmanager
async def in_lab(
    size: tuple[int, int] = (120, 40), *, runs: Path = Path("no-such-folder")
) -> AsyncIterator[tuple[Console, Pilot[int], Lab]]:
    """The Lab, when everything is there, the fields of the form, too."""
    async with opened(runs, size=size) as (app, pilot):
        lab = app.screen
        assert isinstance(lab, Lab)
        await until(pilot, lambda: "· torch" in seen(app) and lab.query(f"#{LINE}"))
        await pilot.pause()
        yield app, pilot, lab


def field(lab: Lab, key: str) -> Field:
    return lab.query_one(f"#{key}", Field)


async def answer(pilot: Pilot[int], lab: Lab, key: str, text: str) -> None:
    """Through the widget, which is as much as its own keys would do."""
    field(lab, key).answer.value = text
    await pilot.pause()


async def choose(pilot: Pilot[int], lab: Lab, name: str) -> None:
    lab.query_one(PresetList).choose(name)
    await pilot.pause()


def command(lab: Lab) -> str:
    return str(lab.query_one("#command Static", Static).content)


def reason(lab: Lab) -> str:
    return str(lab.query_one("#reason", Static).content) if lab.query_one(TrialForm).has_class("-refused") else ""


def are_all_listed(runs: RunsScreen) -> bool:
    """Whether the number of runs is known: while some are still read, dots follow it."""
    _, number = runs.query_one(TitleBar).shown
    return number != "" and "…" not in number


async def until(pilot: Pilot[Any], happened: Callable[[], object]) -> None:
    """Wait for what a thread brings about."""
    async with asyncio.timeout(PATIENCE_S):
        while not happened():
            await pilot.pause(0.01)


async def shows(pilot: Pilot[Any], *words: str) -> None:
    """Wait until all of these are on the screen."""
    missing = [*words]

    def is_there() -> bool:
        missing[:] = [each for each in words if each not in seen(pilot.app)]
        return not missing

    try:
        await until(pilot, is_there)
    except TimeoutError:
        pytest.fail(f"{missing} not on the screen:\n{seen(pilot.app)}")


async def survives(pilot: Pilot[Any], themes: Iterable[str], words: str) -> None:
    """Neither these themes nor any size break the screen, which has these words."""
    for theme in themes:
        pilot.app.theme = theme
        await pilot.pause()
        assert words in seen(pilot.app), theme
    for size in ((1, 1), (30, 60), (200, 3), (60, 16), (20, 80), (200, 60), (80, 24), (120, 40)):
        await pilot.resize_terminal(*size)
    assert words in seen(pilot.app)


def seen(app: App[Any]) -> str:
    """The screen as text."""
    return "\n".join(strip.text.rstrip() for strip in app.screen._compositor.render_strips())


def toasts(app: Console) -> list[str]:
    return [toast.message for toast in app._notifications]
