"""What the screens look like, as pictures: the recorded run through the same fold, with a clock that stands still.

One picture of each screen and dialog, three of a small terminal, one in the light theme, one in Chinese: what else a
screen can show, the tests beside this one read as text. A picture that has changed on purpose: `pytest
tests/tui/test_snapshots.py --snapshot-update`, and look at what changed.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import Input

from ddptui.config.preset import Chinese
from ddptui.host import machine
from ddptui.store import presets
from ddptui.tui.screens.curves import CurvesScreen
from ddptui.tui.screens.primitives import PrimitivesScreen
from ddptui.tui.screens.result import ResultScreen
from ddptui.tui.screens.run import RunScreen
from ddptui.tui.screens.runs import RunsScreen
from tests.support.two_runs import run_with
from tests.tui import primitive_recordings
from tests.tui.opened import Opened, until
from tests.tui.recordings import RECORDED, SampledAsItGoes, ToldAsItGoes, moment_s, over, playback
from tests.tui.two_runs import compare_screen

Snap = Callable[..., bool]
SMALL, MIDDLE = (80, 24), (120, 40)
STANDS_STILL_S = 1e6  # between two looks at a run
CONSTANT = "2 cores · no GPU · torch 2.15.0"


@pytest.fixture(autouse=True)
def always_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """This machine and this checkout are not in the picture."""
    monkeypatch.setattr(machine, "in_short", lambda: CONSTANT)
    monkeypatch.setattr(Input, "_toggle_cursor", lambda _: None)  # on a busy machine it blinks before the picture
    monkeypatch.setattr(Path, "cwd", lambda: Path("/exports"))
    monkeypatch.setattr(presets, "folders", lambda: [RECORDED.parent, tmp_path])
    monkeypatch.setattr("ddptui.tui.widgets.texts.source_line", lambda file, line, *_: f"line {line} of {file}")
    monkeypatch.setattr("ddptui.engines.base.rank_environment", lambda trial, cores: {"PYTHONPATH": "/lab"})
    monkeypatch.setattr("ddptui.engines.base.rank_command", lambda trial: ["python", "-m", f"workers.{trial.launch}"])


def under_way() -> RunScreen:
    told = playback()
    told.seek(moment_s(told, "late", 70))
    return RunScreen(ToldAsItGoes(told))


def where() -> RunScreen:
    told = playback()
    told.seek(moment_s(told, "late", 70))
    feed = SampledAsItGoes(told)
    feed.stands_in = 60
    return RunScreen(feed)


def failed() -> RunScreen:
    told = playback()
    told.seek(1e6)
    return RunScreen(told)


def compare() -> Screen[None]:
    trials = {"one-process": (100, 104), "all_reduce": (200, 206), "ddp": (120, 122)}
    a = run_with(trials, run="20260101-120000-quickstart")
    b = run_with(trials | {"all_reduce": (260, 266), "ring": (1, 2)}, run="20260102-120000-quickstart")
    return compare_screen(a, b)


SCREENS: dict[str, tuple[Callable[[], Screen[None]] | None, list[str]]] = {  # with the keys that lead to what is shown
    "lab": (None, []),
    "form": (None, ["e", *["tab"] * 7, *"back", "right", "tab", *"am"]),
    "run": (under_way, []),
    "save": (under_way, ["b", "down", "w", "ctrl+s"]),
    "lecture": (under_way, ["P"]),
    "help": (under_way, ["question_mark"]),
    "where": (where, ["7", "z"]),
    "failed": (failed, []),
    "result": (lambda: ResultScreen(*over()), ["down"]),
    "differences": (lambda: ResultScreen(*over()), ["f", "5", "down"]),
    "columns": (lambda: ResultScreen(*over()), ["c", "end"]),
    "curves": (lambda: CurvesScreen(over()), []),
    "primitives": (lambda: PrimitivesScreen(primitive_recordings.over()), ["n", "n", "n", "space"]),
    "measured": (lambda: PrimitivesScreen(primitive_recordings.over()), ["3", "n", "space", "n", "n", "n"]),
    "runs": (RunsScreen, []),
    "question": (RunsScreen, ["d"]),
    "compare": (compare, []),
    "export": (compare, ["x"]),
}


def pictured(snap: Snap, name: str, size: tuple[int, int] = MIDDLE, theme: str = "textual-dark") -> bool:
    make, keys = SCREENS[name]
    screen = make() if make else None
    app = Opened(RECORDED.parent if make is RunsScreen else Path("no-such-folder"), screen, refresh_s=STANDS_STILL_S)
    app.theme = theme

    async def before(pilot: Pilot[int]) -> None:
        await app.mounted
        await pilot.app.workers.wait_for_complete()
        await pilot.pause()
        if pilot.app.screen.query("AboutPreset"):  # its Markdown is parsed in a thread
            await until(pilot, lambda: pilot.app.screen.query("MarkdownBlock"))
        if isinstance(screen, RunScreen):
            screen.draw()
        if isinstance(screen, PrimitivesScreen):
            await until(pilot, lambda: screen.query_one("#now").display)
        await pilot.press(*keys)  # a dialog is a worker that waits for an answer: nobody waits for that
        await pilot.pause()

    return snap(app, terminal_size=size, run_before=before)


@pytest.mark.parametrize("name", SCREENS)
def test_screen(snap_compare: Snap, name: str) -> None:
    assert pictured(snap_compare, name)


@pytest.mark.parametrize("name", ["run", "result", "where"])
def test_small(snap_compare: Snap, name: str) -> None:
    assert pictured(snap_compare, name, SMALL)


def test_chinese(snap_compare: Snap, in_chinese: None, monkeypatch: pytest.MonkeyPatch) -> None:
    of = over()
    preset = replace(of.preset, zh=Chinese(title="rank 1 在反向传播中迟到时，谁在等谁？"))
    monkeypatch.setitem(SCREENS, "chinese", (lambda: ResultScreen(of.run, preset, of.results), ["down"]))
    assert pictured(snap_compare, "chinese", SMALL)


def test_light(snap_compare: Snap) -> None:
    assert pictured(snap_compare, "differences", theme="textual-light")
