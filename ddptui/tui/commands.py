"""What the command palette offers besides Textual's own (themes, keys, maximize, screenshot): presets, runs, views,
exports."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, cast

from textual.command import DiscoveryHit, Hit, Hits, Provider

from ddptui.config.parser import PresetError
from ddptui.engines.preflight import prepare
from ddptui.store.presets import load, preset_paths
from ddptui.store.runs import all_runs
from ddptui.tui.exports import FORMATS
from ddptui.tui.screens.result import ResultScreen
from ddptui.tui.screens.run import RunScreen
from ddptui.tui.widgets.panes import TITLES

if TYPE_CHECKING:
    from ddptui.tui.app import Console

MOST_RUNS = 100


class Command(NamedTuple):
    title: str
    help: str
    call: Callable[[], object]


class LabCommands(Provider):
    async def discover(self) -> Hits:
        """What is offered before anything is typed."""
        for command in self._views():
            yield DiscoveryHit(command.title, command.call, help=command.help)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for command in (*self._views(), *self._presets(), *self._runs()):
            if (score := matcher.match(command.title)) > 0:
                yield Hit(score, matcher.highlight(command.title), command.call, help=command.help)

    @property
    def _console(self) -> "Console":
        return cast("Console", self.app)

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
        if self._console.session is None:  # one run at a time
            for name in preset_paths():
                yield Command(f"preset: {name}", "Run it", partial(self._run, name))

    def _run(self, name: str) -> None:
        try:
            self._console.run_preset(prepare(load(name)))
        except PresetError as error:
            self._console.complain("Not started", str(error))

    def _runs(self) -> Iterator[Command]:
        for run in all_runs(self._console.runs)[:MOST_RUNS]:
            yield Command(f"run: {run.name}", "Open its results", partial(self._console.open_run, run))
