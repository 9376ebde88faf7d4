"""The console's entries in the command palette: presets, runs, views, exports."""

from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import cast

from textual.app import SystemCommand
from textual.command import Hit, Hits, Provider
from textual.screen import Screen

from ddptui.config.preset import Preset
from ddptui.engines.checks import prepare
from ddptui.store.presets import load, preset_paths
from ddptui.store.runs import all_runs
from ddptui.tui.background import in_background
from ddptui.tui.screens.base import ConsoleApp
from ddptui.tui.screens.export import FORMATS, why, write
from ddptui.tui.screens.result import ResultScreen
from ddptui.tui.screens.run import RunScreen
from ddptui.tui.widgets.panes import TITLES

MOST_RUNS = 100  # more would flood the palette, and each costs a look at its folder


def lab_commands(console: ConsoleApp, screen: Screen[object]) -> Iterator[SystemCommand]:
    """Yield the commands for the current screen."""
    yield SystemCommand("view: runs", "Earlier runs: open, compare, replay, delete", console.action_runs)
    if isinstance(screen, RunScreen):
        for name in screen.panes.present:
            yield SystemCommand(f"view: {TITLES[name].lower()}", "Go to this pane", partial(screen.action_pane, name))
    if isinstance(screen, ResultScreen):
        for form in FORMATS:
            export = partial(screen.action_export, form)
            yield SystemCommand(f"export: {form}", "Write these results to a file", export)


def keep_picture(console: ConsoleApp, screen: Screen[object]) -> None:
    """Save a picture of a screen in the current folder, like exports."""
    try:
        path = Path.cwd() / f"ddptui-{datetime.now():%Y%m%d-%H%M%S}.svg"
        write(lambda: [screen.app.export_screenshot()], path)
    except OSError as error:
        console.complain("Picture not saved", why(error))
    else:
        screen.app.notify(str(path), title="Picture saved", markup=False)


class StoredCommands(Provider):
    """Presets to run and runs to open. These many entries appear only in a search. A thread reads them."""

    async def startup(self) -> None:
        self._commands = await in_background(partial(stored, cast(ConsoleApp, self.app)))

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for name, about, call in self._commands:
            if (match := matcher.match(name)) > 0:
                yield Hit(match, matcher.highlight(name), call, help=about)


def stored(console: ConsoleApp) -> list[tuple[str, str, Callable[[], object]]]:
    """Return the commands for presets and runs: their names, descriptions and calls."""
    commands: list[tuple[str, str, Callable[[], object]]] = []
    if console.session is None:  # at most one run at a time
        for name in preset_paths():
            commands.append((f"preset: {name}", "Run it", partial(console.launch, partial(_checked, name))))
    try:
        runs = all_runs(console.runs)[:MOST_RUNS]
    except OSError:  # the Runs screen shows the reason; the other commands remain usable
        runs = []
    return commands + [(f"run: {run.name}", "Open its results", partial(console.open_run, run)) for run in runs]


def _checked(name: str) -> Preset:
    return prepare(load(name))
