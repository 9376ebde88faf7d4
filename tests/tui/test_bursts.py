"""Keys that come all at once, as over a slow line or from a paste: each one arrives where it belongs."""

from collections.abc import Callable
from pathlib import Path

import pytest
from textual._xterm_parser import XTermParser
from textual.app import App
from textual.command import CommandPalette
from textual.screen import Screen
from textual.widgets import Input

from ddptui.run.runner import Session
from ddptui.tui import terminal
from ddptui.tui.draft import LINE
from ddptui.tui.screens.base import LabScreen
from ddptui.tui.screens.dialogs import NameDialog
from ddptui.tui.screens.export import ExportDialog
from ddptui.tui.screens.lab import Lab
from ddptui.tui.screens.primitives import PrimitivesScreen
from ddptui.tui.screens.run import RunScreen
from ddptui.tui.screens.runs import RunsScreen
from ddptui.tui.widgets.trial_form import Field
from tests.tui import primitive_recordings
from tests.tui.opened import PATIENCE_S, Opened, opened, until
from tests.tui.recordings import RECORDED, ToldAsItGoes, at

BACKSPACE, CTRL_P, CTRL_S, CTRL_U = "\x7f", "\x10", "\x13", "\x15"


@pytest.fixture(autouse=True)
def every_key_waits_for_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long that takes: a busy machine may need more than the 5 s after which the console goes on."""
    monkeypatch.setattr(terminal, "LONGEST_WAIT_S", PATIENCE_S)


def send(app: App[int], typed: str) -> None:
    """Send what a terminal would, as the driver does when it reads all of it at once."""
    assert app._driver is not None
    parser = XTermParser()
    for event in (*parser.feed(typed), *parser.tick()):
        app._driver.send_message(event)


def in_field(screen: Screen[object]) -> str:
    """What is in the field with the focus."""
    return screen.focused.value if isinstance(screen.focused, Input) else ""


Burst = tuple[Callable[[], LabScreen], str, Callable[[Screen[object]], object]]
BURSTS: dict[str, Burst] = {
    "filter, from another view": (Lab, "i/who", lambda top: in_field(top) == "who"),
    "an emptied field": (
        Lab,
        f"e\t45{CTRL_U}3{BACKSPACE}7",
        lambda top: top.query_one("#world_size", Field).text == "7",
    ),
    "another screen": (Lab, "r/0102", lambda top: isinstance(top, RunsScreen) and in_field(top) == "0102"),
    "dialog": (Lab, f"{CTRL_S}{CTRL_U}mine", lambda top: isinstance(top, NameDialog) and in_field(top) == "mine"),
    "palette": (Lab, f"{CTRL_P}runs", lambda top: isinstance(top, CommandPalette) and in_field(top) == "runs"),
    "dialog, next field": (
        lambda: PrimitivesScreen(primitive_recordings.over()),
        f"x\t{CTRL_U}/tmp/table.md",
        lambda top: isinstance(top, ExportDialog) and in_field(top) == "/tmp/table.md",
    ),
}


@pytest.mark.parametrize("burst", BURSTS.values(), ids=[*BURSTS])
async def test_a_burst_arrives_where_it_belongs(tmp_path: Path, burst: Burst) -> None:
    begins_with, typed, has_arrived = burst
    async with opened(tmp_path, begins_with(), (80, 24)) as (app, pilot):
        # of the Lab, the form is built after the rest
        await until(pilot, lambda: not isinstance(app.screen, Lab) or app.screen.query(f"#{LINE}"))
        send(app, typed)
        await until(pilot, lambda: has_arrived(app.screen))


async def test_a_dialog_gets_its_answer_and_the_screen_below_the_rest(tmp_path: Path) -> None:
    screen = RunScreen(ToldAsItGoes(at("late", 60)))
    assert isinstance(screen.feed, Session)
    controls = screen.feed.controls
    async with opened(tmp_path, screen) as (app, pilot):
        send(app, "Sn+bSy")
        await until(pilot, lambda: controls.end() == "interrupted")
        [delays] = controls.requests(screen.watched.live.launched_ns)
        assert delays[-1].sleep_ms == 50


async def test_a_second_question_gets_its_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    there = tmp_path / f"{RECORDED.name}.html"
    there.write_text("old")
    async with opened(tmp_path, PrimitivesScreen(primitive_recordings.over())) as (app, pilot):
        send(app, "x\ry")
        await until(pilot, lambda: there.read_text() not in ("", "old"))


class Hurried(Opened):
    """Its user types before it has opened."""

    def on_mount(self) -> None:  # besides those of its bases
        send(self, "/who")


async def test_what_is_typed_before_the_first_screen_is_there_belongs_to_it(tmp_path: Path) -> None:
    async with Hurried(tmp_path).run_test() as pilot:
        await until(pilot, lambda: in_field(pilot.app.screen) == "who")
