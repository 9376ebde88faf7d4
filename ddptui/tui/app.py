"""The console: its screens, and how one leads to another.

Most screens are imported when they are first shown, so that the first picture appears sooner.
"""

import asyncio
import gc
import signal
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import work
from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.command import Provider
from textual.screen import Screen

from ddptui.config.preset import Preset
from ddptui.text.words import printable
from ddptui.tui import settings
from ddptui.tui.launch_check import LaunchCheck
from ddptui.tui.screens.base import ConsoleApp, LabScreen
from ddptui.tui.screens.lab import Lab

if TYPE_CHECKING:
    from ddptui.analysis.repeat import Outcomes
    from ddptui.analysis.results import Results
    from ddptui.run.playback import Playback
    from ddptui.run.session import Session
    from ddptui.store.runs import Run

ERROR_STAYS_S = 10


def lab_commands() -> type[Provider]:
    """Return the provider of the command palette's own entries."""
    from ddptui.tui.commands import LabCommands

    return LabCommands


def screen_following(feed: "Session | Playback") -> Screen[None]:
    """Return the screen that follows a run or a replay."""
    if feed.preset.kind == "primitives":
        from ddptui.tui.screens.primitives import PrimitivesScreen

        return PrimitivesScreen(feed)
    from ddptui.tui.screens.run import RunScreen

    return RunScreen(feed)


def screen_of_results(run: "Run", preset: Preset, results: "Results") -> Screen[None]:
    """Return the screen that shows the results of a run."""
    if preset.kind == "primitives":
        from ddptui.tui.screens.following import EndedRun
        from ddptui.tui.screens.primitives import PrimitivesScreen

        return PrimitivesScreen(EndedRun(run, preset, results))
    from ddptui.tui.screens.result import ResultScreen

    return ResultScreen(run, preset, results)


def _prepared(run: "Run", prepare: Callable[[], Preset]) -> "tuple[Preset, Outcomes]":
    """Return the preset of a run that is to be resumed, and the launches it need not repeat. Reads long journals."""
    from ddptui.store.outcomes import finished, outcomes_of
    from ddptui.store.runs import RunError

    if run.is_held():
        raise RunError(f"{run.folder}: another console has this run under way: stop it there first")
    preset = prepare()
    return preset, finished(outcomes_of(run, preset))


class Console(App[int]):
    """The app. Its exit code is 0, or 128 + the number of the signal that ended it."""

    TITLE = "ddptui"
    CSS_PATH = "app.tcss"
    COMMANDS = App.COMMANDS | {lab_commands}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark,f1", "help", "Help", key_display="?"),
        Binding("q", "leave", "Quit", show=False),
        Binding("ctrl+q", "leave", "Quit", show=False, priority=True),
        # Before the screens' own escape, and disabled while nothing is checked.
        Binding("escape", "cancel_check", "Cancel the check", show=False, priority=True),
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
        """`runs`: the folder of runs. `first`: a checked preset to run at once. `begun`: a run to resume at once, and
        its checked preset. `threads`: where a run's session works. `refresh_s`: between two updates of a run's screen.
        """
        super().__init__()
        self.runs = runs
        self.refresh_s = refresh_s
        self.session: Session | None = None
        self.leaving = False
        self.finished: list[tuple[Results, Preset]] = []  # printed when the console closes
        self._check = LaunchCheck()
        self._first = first
        self._begun = begun
        self._threads = threads or ThreadPoolExecutor(1, "lab")

    def on_mount(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._end, 128 + number)
        self.theme_changed_signal.subscribe(self, lambda theme: settings.save(settings.Settings(theme=theme.name)))
        self.screen_change_signal.subscribe(self, lambda _: self._check.cancel_unless_on(self._full_screen()))
        self.push_screen(Lab())
        if self._first is not None:
            self.run_preset(self._first)
        if self._begun is not None:
            run, preset = self._begun
            self.resume(run, lambda: preset)

    def _end(self, code: int) -> None:
        """Exit after a signal, without a question. Finished launches are kept."""
        self.leaving = True
        self.exit(return_code=code)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Replace Textual's own palette entries by those that do what the console's keys do."""
        yield SystemCommand("Theme", "Choose other colors", self.action_change_theme)
        yield SystemCommand("Screenshot", "Keep a picture of this screen (SVG)", self.deliver_screenshot)
        yield SystemCommand("Help", "What the keys do", self.action_help)
        yield SystemCommand("Quit", "Asks first while a run is under way", self.action_leave)

    def on_ready(self) -> None:
        """Allow garbage collection again after the first picture: it was off so as not to delay that."""
        gc.enable()

    @work(group="launch")
    async def launch(self, prepare: Callable[[], Preset]) -> None:
        """Check a preset in a thread, then run it. `prepare` may raise PresetError."""
        from ddptui.config.parser import PresetError

        if self._may_launch():
            try:
                if (preset := await self._check.run(prepare, self._full_screen())) is not None:
                    self.run_preset(preset)
            except PresetError as error:
                self.complain("Not started", printable(str(error)))

    def run_preset(self, preset: Preset) -> None:
        """Start a run of a preset that was checked, and show it."""
        from ddptui.host.machine import describe
        from ddptui.store.runs import Run, RunError

        try:
            self._follow(Run.create(self.runs, preset, describe()), preset, {})
        except RunError as error:
            self.complain("Not started", str(error))

    @work(group="launch")
    async def resume(self, run: "Run", prepare: Callable[[], Preset]) -> None:
        """Launch what is missing in a run, and show it. `prepare`: its preset, checked; may raise PresetError."""
        from ddptui.config.parser import PresetError
        from ddptui.host.machine import describe
        from ddptui.store.journal import RunLost
        from ddptui.store.runs import RunError

        if self._may_launch():
            try:
                checked = await self._check.run(partial(_prepared, run, prepare), self._full_screen())
                if checked is not None:
                    run.note_resumption(describe())
                    self._follow(run, *checked)
            except (PresetError, RunError, RunLost, OSError) as error:
                self.complain("Not resumed", printable(str(error)))

    def _may_launch(self) -> bool:
        """Whether nothing runs: two runs would take the cores from each other. A repeated key is no error."""
        if self.session is not None:
            self.complain("Not started", "another run is under way")
        return self.session is None and not self._check.is_pending

    def action_cancel_check(self) -> None:
        self._check.cancel()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action != "cancel_check" or self._check.is_pending

    def _full_screen(self) -> LabScreen:
        """Return the topmost screen that is no dialog."""
        return next(screen for screen in reversed(self.screen_stack) if isinstance(screen, LabScreen))

    def _follow(self, run: "Run", preset: Preset, outcomes: "Outcomes") -> None:
        from ddptui.run.session import Session

        self.session = Session(preset, run, self._threads, outcomes)
        self.push_screen(screen_following(self.session))

    def run_ended(self, session: "Session") -> None:
        """Note that no rank of this run is left."""
        self.session = None
        self.finished.append((session.results, session.preset))

    def show_results(self, session: "Session") -> None:
        """Replace the screen that followed this run, which is the current one, by its results."""
        from ddptui.tui.screens.result import ResultScreen

        self.switch_screen(ResultScreen(session.run, session.preset, session.results))

    @work(exclusive=True, group="open")
    async def open_run(self, run: "Run") -> None:
        """Show the results of a run on disk. Its journals may be long: a thread reads them."""
        from ddptui.store.outcomes import results_of
        from ddptui.store.runs import RunError

        try:
            preset = run.preset()
            results = await asyncio.to_thread(results_of, run, preset)
            self.push_screen(screen_of_results(run, preset, results))
        except RunError as error:
            self.complain("Cannot be opened", str(error))

    @work(exclusive=True, group="open")
    async def replay(self, run: "Run") -> None:
        """Show a run on disk as it went."""
        from ddptui.run.playback import Playback
        from ddptui.store.runs import RunError

        try:
            self.push_screen(screen_following(await asyncio.to_thread(Playback, run, run.preset())))
        except RunError as error:
            self.complain("Cannot be replayed", str(error))

    def complain(self, title: str, error: str) -> None:
        """Show an error for some seconds."""
        self.notify(error, title=title, severity="error", timeout=ERROR_STAYS_S, markup=False)

    def action_runs(self) -> None:
        """Show the list of earlier runs."""
        from ddptui.tui.screens.runs import RunsScreen

        self.push_screen(RunsScreen())

    def action_help(self) -> None:
        """Show what the keys of the current screen do."""
        from ddptui.tui.screens.help import HelpScreen

        if not isinstance(self.screen, HelpScreen):
            self.push_screen(HelpScreen(self.screen))

    @work
    async def action_leave(self) -> None:
        """Quit; while a run is under way, after a question."""
        from ddptui.tui.screens.dialogs import Confirm

        if self.session is not None and not self.session.is_over and not self.leaving:
            question = "Stop the run and quit? What is finished is kept."
            if not await self.push_screen_wait(Confirm(question, yes="Stop and quit", no="Go on")):
                return
        self.leaving = True
        self.exit(0)


if TYPE_CHECKING:

    def _as_screens_see_it(console: Console) -> ConsoleApp:  # screens cast to it: here mypy checks that they may
        return console
