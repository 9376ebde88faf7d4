"""The command palette's own entries: presets, runs, views, exports."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple, cast

from textual.command import DiscoveryHit, Hit, Hits, Provider

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


class Command(NamedTuple):
    """One entry of the palette."""

    title: str
    help: str
    call: Callable[[], object]


class LabCommands(Provider):
    """Finds the entries that fit what the user types."""

    async def discover(self) -> Hits:
        """Yield what is offered before anything is typed."""
        for command in self._views():
            yield DiscoveryHit(command.title, command.call, help=command.help)

    async def search(self, query: str) -> Hits:
        """Yield the entries whose titles match."""
        matcher = self.matcher(query)
        for command in (*self._views(), *self._presets(), *self._runs()):
            if (score := matcher.match(command.title)) > 0:
                yield Hit(score, matcher.highlight(command.title), command.call, help=command.help)

    @property
    def _console(self) -> ConsoleApp:
        return cast(ConsoleApp, self.app)

    def _views(self) -> Iterator[Command]:
        yield Command("view: runs", "Earlier runs: open, compare, replay, delete", self._console.action_runs)
        if isinstance(self.screen, RunScreen):
            for name, title in TITLES.items():
                yield Command(f"view: {title.lower()}", "A pane of this screen", partial(self.screen.action_pane, name))
        if isinstance(self.screen, ResultScreen):
            for form in FORMATS:
                export = partial(self.screen.action_export, form)
                yield Command(f"export: {form}", "Write these results to a file", export)

    def _presets(self) -> Iterator[Command]:
        if self._console.session is None:  # at most one run at a time
            for name in preset_paths():
                yield Command(f"preset: {name}", "Run it", partial(self._console.launch, partial(_checked, name)))

    def _runs(self) -> Iterator[Command]:
        for run in all_runs(self._console.runs)[:MOST_RUNS]:
            yield Command(f"run: {run.name}", "Open its results", partial(self._console.open_run, run))


def _checked(name: str) -> Preset:
    return prepare(load(name))
