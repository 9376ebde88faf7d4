"""Each screen has its own style: the screens that were open before it change nothing."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest
from textual.app import SystemCommand
from textual.command import CommandPalette
from textual.pilot import Pilot
from textual.screen import Screen

from ddptui.text.tables import Filled
from ddptui.tui.app import Console
from ddptui.tui.screens.curves import CurvesScreen
from ddptui.tui.screens.dialogs import ColumnsDialog, HelpScreen, NameDialog, Question
from ddptui.tui.screens.export import FORMATS, ExportDialog
from ddptui.tui.screens.lab import Lab
from ddptui.tui.screens.primitives import PrimitivesScreen
from ddptui.tui.screens.result import ResultScreen
from ddptui.tui.screens.run import RunScreen
from ddptui.tui.screens.runs import RunsScreen
from tests.tui import primitive_recordings
from tests.tui.opened import opened
from tests.tui.recordings import over, playback
from tests.tui.two_runs import compare_screen

SIZES = [(80, 24), (200, 60)]

Look = Mapping[str, set[str]]  # the rules, by widget


SCREENS: dict[str, Callable[[], Screen[object]]] = {
    "lab": Lab,
    "run": lambda: RunScreen(playback()),
    "result": lambda: ResultScreen(*over()),
    "compare": lambda: compare_screen(over().results, over().results),
    "curves": lambda: CurvesScreen(over()),
    "runs": RunsScreen,
    "primitives": lambda: PrimitivesScreen(primitive_recordings.over()),
    "question": lambda: Question("Stop the run?"),
    "columns": lambda: ColumnsDialog([Filled("trial", ["a"], left=True, key="trial")], ["trial"]),
    "save": lambda: NameDialog("Save as your own preset, named", "mine", "Save", lambda name: ""),
    "export": lambda: ExportDialog("run", "csv", [*FORMATS], "a"),
    "help": lambda: HelpScreen(Screen()),
    "palette": CommandPalette,
}


@pytest.fixture(autouse=True)
def few_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    commands = [SystemCommand("One", "The only one", lambda: None)]  # each of the console's own would be looked at
    monkeypatch.setattr(Console, "get_system_commands", lambda *_: commands)


def look(screen: Screen[object]) -> Look:
    """What the style sheets made of the screen and its widgets."""
    return {
        " > ".join(node.css_identifier for node in widget.css_path_nodes[1:]): {*widget.styles.base.css_lines}
        for widget in (screen, *screen.query())
    }


async def looks(app: Console, pilot: Pilot[int], name: str, sizes: Iterable[tuple[int, int]] = SIZES) -> list[Look]:
    """Open a screen, look at it in each size, and leave it."""
    screen, found = SCREENS[name](), []
    await app.push_screen(screen)
    for size in sizes:
        await pilot.resize_terminal(*size)
        for _ in range(2):  # what a screen draws first may start workers, as the one that finds an answer
            await pilot.pause()
            await app.workers.wait_for_complete()
        await pilot.pause()
        found.append(look(screen))
    await app.pop_screen()
    return found


def differing(look: Look, expected: Look) -> dict[str, set[str]]:
    """Return the rules that differ, by widget."""
    return {of: rules for of in look.keys() & expected.keys() if (rules := look[of] ^ expected[of])}


# Of each screen alone, test_snapshots.py still covers the style.
@pytest.mark.rare
async def test_each_screen_looks_after_all_others_as_it_does_alone(tmp_path: Path) -> None:
    alone: dict[str, list[Look]] = {}
    for name in SCREENS:
        async with opened(tmp_path, Screen()) as (app, pilot):
            alone[name] = await looks(app, pilot, name)
    async with opened(tmp_path, Screen()) as (app, pilot):
        for name in SCREENS:
            await looks(app, pilot, name, SIZES[:1])
        for name in SCREENS:
            for size, shown, expected in zip(SIZES, await looks(app, pilot, name), alone[name], strict=True):
                assert not differing(shown, expected), f"{name} at {size}"
