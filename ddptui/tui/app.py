"""The console: its screens, and what leads from one to another.

What the first picture does not need is imported when it is wanted: that picture should be there in a blink.
"""

import asyncio
import gc
import signal
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import work
from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.command import Provider
from textual.screen import Screen

from ddptui.config.preset import Preset
from ddptui.tui import settings
from ddptui.tui.screens.lab import Lab

if TYPE_CHECKING:
    from ddptui.analysis.repeat import Outcomes
    from ddptui.analysis.results import Results
    from ddptui.run.playback import Playback
    from ddptui.run.session import Session
    from ddptui.store.runs import Run

ERROR_STAYS_S = 10


def lab_commands() -> type[Provider]:
    from ddptui.tui.commands import LabCommands

    return LabCommands


def told(feed: "Session | Playback") -> Screen[None]:
    """What shows a run as it goes, or went."""
    if feed.preset.kind == "primitives":
        from ddptui.tui.screens.primitives import PrimitivesScreen

        return PrimitivesScreen(feed)
    from ddptui.tui.screens.run import RunScreen

    return RunScreen(feed)


def shown(run: "Run", preset: Preset, results: "Results") -> Screen[None]:
    """What shows what a run has come to."""
    if preset.kind == "primitives":
        from ddptui.tui.screens.following import Over
        from ddptui.tui.screens.primitives import PrimitivesScreen

        return PrimitivesScreen(Over(run, preset, results))
    from ddptui.tui.screens.result import ResultScreen

    return ResultScreen(run, preset, results)


class Console(App[int]):
    """`runs`: the folder of runs; `threads`: where a run goes on; `first`: a preset to run at once; `begun`: a run to
    go on with at once, and its preset; `refresh_s`: between two looks at a run."""

    TITLE = "ddptui"
    CSS_PATH = "app.tcss"
    COMMANDS = App.COMMANDS | {lab_commands}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark,f1", "help", "Help", key_display="?"),
        Binding("q", "leave", "Quit", show=False),
        Binding("ctrl+q", "leave", "Quit", show=False, priority=True),
    ]

    def __init__(
        self,
        runs: Path,
        first: Preset | None = None,
        begun: "tuple[Run, Preset] | None" = None,
        *,
        threads: ThreadPoolExecutor | None = None,
        refresh_s: float = 0.25,
    ) -> None:
        super().__init__()
        self.runs = runs
        self.refresh_s = refresh_s
        self.session: Session | None = None  # the run that is under way, if any
        self.leaving = False
        self.finished: list[tuple[Results, Preset]] = []  # what was run here, to be printed at the end
        self._first = first
        self._begun = begun
        self._threads = threads or ThreadPoolExecutor(1, "lab")

    def on_mount(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._end, 128 + number)
        self.theme_changed_signal.subscribe(self, lambda theme: settings.save(settings.Settings(theme=theme.name)))
        self.push_screen(Lab())
        if self._first is not None:
            self.run_preset(self._first)
        if self._begun is not None:
            self.resume(*self._begun)

    def _end(self, code: int) -> None:
        """Somebody outside wants it: nobody is asked, and what is finished is kept."""
        self.leaving = True
        self.exit(return_code=code)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Of Textual's own commands for the palette those that do what our keys do, in our way."""
        yield SystemCommand("Theme", "Choose another look", self.action_change_theme)
        yield SystemCommand("Screenshot", "Keep a picture of this screen (SVG)", self.deliver_screenshot)
        yield SystemCommand("Help", "What the keys do", self.action_help)
        yield SystemCommand("Quit", "Asks while something runs", self.action_leave)

    def on_ready(self) -> None:
        """The first picture is there."""
        gc.enable()

    def run_preset(self, preset: Preset) -> None:
        """Start a run, and show it. One at a time: they would take the cores from each other."""
        from ddptui.host.machine import describe
        from ddptui.store.runs import Run, RunError

        if self._is_free():
            try:
                self._follow(Run.create(self.runs, preset, describe()), preset, {})
            except RunError as error:
                self.complain("Not started", str(error))

    @work(exclusive=True, group="open")
    async def resume(self, run: "Run", preset: Preset) -> None:
        """Launch what is missing in a run, and show it. What is there is read in a thread."""
        from ddptui.host.machine import describe
        from ddptui.store.journal import RunLost
        from ddptui.store.outcomes import finished, outcomes_of
        from ddptui.store.runs import RunError

        if self._is_free():
            try:
                if run.is_held():
                    raise RunError(f"{run.folder}: another console has this run under way: stop it there first")
                there = finished(await asyncio.to_thread(outcomes_of, run, preset))
                if self._is_free():  # still
                    run.note_resumption(describe())
                    self._follow(run, preset, there)
            except (RunError, RunLost, OSError) as error:
                self.complain("Not resumed", str(error))

    def _is_free(self) -> bool:
        if self.session is not None:
            self.complain("Not started", "another run is under way")
        return self.session is None

    def _follow(self, run: "Run", preset: Preset, there: "Outcomes") -> None:
        from ddptui.run.session import Session

        self.session = Session(preset, run, self._threads, there)
        self.push_screen(told(self.session))

    def run_ended(self, session: "Session") -> None:
        """Said by the Run screen when no rank is left."""
        self.session = None
        self.finished.append((session.results, session.preset))

    def show_results(self, session: "Session") -> None:
        """In place of the screen that showed how they came to be."""
        from ddptui.tui.screens.result import ResultScreen

        self.switch_screen(ResultScreen(session.run, session.preset, session.results))

    @work(exclusive=True, group="open")
    async def open_run(self, run: "Run") -> None:
        """Show the results of a run that is on disk. Its journals may be long: they are read in a thread."""
        from ddptui.store.outcomes import results_of
        from ddptui.store.runs import RunError

        try:
            preset = run.preset()
            results = await asyncio.to_thread(results_of, run, preset)
            self.push_screen(shown(run, preset, results))
        except RunError as error:
            self.complain("Cannot be opened", str(error))

    @work(exclusive=True, group="open")
    async def replay(self, run: "Run") -> None:
        """Show a run that is on disk as it went."""
        from ddptui.run.playback import Playback
        from ddptui.store.runs import RunError

        try:
            self.push_screen(told(await asyncio.to_thread(Playback, run, run.preset())))
        except RunError as error:
            self.complain("Cannot be replayed", str(error))

    def complain(self, title: str, error: str) -> None:
        self.notify(error, title=title, severity="error", timeout=ERROR_STAYS_S, markup=False)

    def action_runs(self) -> None:
        from ddptui.tui.screens.runs import RunsScreen

        self.push_screen(RunsScreen())

    def action_help(self) -> None:
        from ddptui.tui.screens.help import HelpScreen

        if not isinstance(self.screen, HelpScreen):
            self.push_screen(HelpScreen(self.screen))

    @work
    async def action_leave(self) -> None:
        """Quit; while something runs, only if that is what is wanted."""
        from ddptui.tui.screens.confirm import Confirm

        if self.session is not None and not self.session.is_over and not self.leaving:
            question = "Stop the run and quit? What is finished is kept."
            if not await self.push_screen_wait(Confirm(question, yes="Stop and quit", no="Go on")):
                return
        self.leaving = True
        self.exit(0)
