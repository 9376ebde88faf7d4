"""The command palette's own entries: presets, runs, views, exports."""

from collections.abc import Iterator
from functools import partial

from textual.app import SystemCommand
from textual.screen import Screen

from ddptui.config.preset import Preset
from ddptui.engines.preflight import prepare
from ddptui.store.presets import load, preset_paths
from ddptui.store.runs import all_runs
from ddptui.tui.screens.base import ConsoleApp
from ddptui.tui.screens.export import FORMATS
from ddptui.tui.screens.result import ResultScreen
from ddptui.tui.screens.run import RunScreen
from ddptui.tui.widgets.panes import TITLES

MOST_RUNS = 100  # more would fill the palette, and each is a folder to look at


def lab_commands(console: ConsoleApp, screen: Screen[object]) -> Iterator[SystemCommand]:
    """Yield what can be done from a screen. Presets and runs, of which there are many, show only when searched for."""
    yield SystemCommand("view: runs", "Earlier runs: open, compare, replay, delete", console.action_runs)
    if isinstance(screen, RunScreen):
        for name, title in TITLES.items():
            yield SystemCommand(f"view: {title.lower()}", "A pane of this screen", partial(screen.action_pane, name))
    if isinstance(screen, ResultScreen):
        for form in FORMATS:
            export = partial(screen.action_export, form)
            yield SystemCommand(f"export: {form}", "Write these results to a file", export)
    if console.session is None:  # at most one run at a time
        for name in preset_paths():
            launch = partial(console.launch, partial(_checked, name))
            yield SystemCommand(f"preset: {name}", "Run it", launch, discover=False)
    try:
        runs = all_runs(console.runs)[:MOST_RUNS]
    except OSError:  # the Runs screen says why; here all other commands would be lost with them
        runs = []
    for run in runs:
        open_run = partial(console.open_run, run)
        yield SystemCommand(f"run: {run.name}", "Open its results", open_run, discover=False)


def _checked(name: str) -> Preset:
    return prepare(load(name))
