"""The console's app: opens its screens, starts and resumes runs, and quits.

Most screens are imported when they are first shown, so that the first screen appears sooner.
"""

import asyncio
import gc
import signal
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeVar

from textual import work
from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.command import Provider
from textual.events import Event
from textual.filter import LineFilter
from textual.screen import Screen
from textual.signal import Signal
from textual.theme import Theme

from ddptui.config.parser import PresetError
from ddptui.config.preset import Preset, needs_warm_parent
from ddptui.config.settings import NO_SETTINGS, Settings, SettingsError
from ddptui.host.machine import describe
from ddptui.run.quiet import can_wait
from ddptui.store import settings as settings_file
from ddptui.store.journal import RunLost
from ddptui.store.runs import Run, RunError
from ddptui.text.door import brief
from ddptui.tui.background import in_background
from ddptui.tui.door import Door
from ddptui.tui.keyboard import Keyboard, Typed
from ddptui.tui.keys import bound, keymap
from ddptui.tui.launch_check import LaunchCheck
from ddptui.tui.screens.base import ConsoleApp, EndedRun
from ddptui.tui.screens.lab import Lab

if TYPE_CHECKING:
    from ddptui.engines.local.foreign import Terms
    from ddptui.engines.local.warm import WarmParent
    from ddptui.findings.repeat import Outcomes
    from ddptui.run.playback import Playback
    from ddptui.run.quiet import Calm
    from ddptui.run.resume import Resumption
    from ddptui.run.session import Session

SOON_S = 1.0  # reading a run that takes longer is announced
ERROR_STAYS_S = 10  # twice Textual's default: an error takes longer to read than a notice

Checked = TypeVar("Checked")


def screen_of(feed: "Session | Playback | EndedRun") -> Screen[None]:
    """Return the screen that follows a run or a replay, or that shows the results of a run."""
    if feed.preset.kind == "primitives":  # one screen for all three cases: times appear in their final place
        from ddptui.tui.screens.primitives import PrimitivesScreen

        return PrimitivesScreen(feed)
    if isinstance(feed, EndedRun):
        from ddptui.tui.screens.result import ResultScreen

        return ResultScreen(*feed)
    from ddptui.tui.screens.run import RunScreen

    return RunScreen(feed)


class Bottom(Screen[None]):
    """The screen below all others, which is never visible. When the user returns to it, it opens the Lab."""

    def on_screen_resume(self) -> None:
        if self.is_active:
            self.app.push_screen(Lab())


def stored_commands() -> type[Provider]:
    """Return the command palette's provider of presets and runs."""
    from ddptui.tui.commands import StoredCommands

    return StoredCommands


class Console(App[int]):
    """The app. Its exit code is 0, or 128 + the number of the signal that ended it."""

    TITLE = "ddptui"
    CSS_PATH = Path(__file__).with_name("app.tcss")
    COMMANDS = App.COMMANDS | {stored_commands}
    BINDINGS: ClassVar[list[BindingType]] = [
        bound("help", "help", "Help"),
        Binding("f1", "help", "Help", show=False),
        bound("quit", "leave", "Quit", show=False),  # needed since some terminals (VS Code) do not pass on ctrl+q
        Binding("ctrl+q", "leave", "Quit", show=False, priority=True),
        Binding("ctrl+z", "stay", "Suspend", show=False),
        # Has priority over the screens' own escape, but is disabled unless a check is pending.
        Binding("escape", "cancel_check", "Cancel the check", show=False, priority=True),
    ]

    def __init__(
        self,
        runs: Path,  # the folder of runs
        first: Preset | None = None,  # a checked preset to run at once
        begun: "Resumption | None" = None,  # a run to resume at once
        *,
        threads: ThreadPoolExecutor | None = None,  # runs the sessions of runs
        warm: "WarmParent | None" = None,  # shared by all runs; None: each run has its own
        watch_load: bool = False,  # measure the load of other programs while no run is active
        terms: "Terms | None" = None,  # how to watch the first preset's command
        calm: "Calm | None" = None,  # measures how busy this machine is; None: start the first run without asking
        refresh_s: float = 0.25,  # time between two updates of a run's screen: 10 Hz would take a quarter of a core
        settings: Settings = NO_SETTINGS,  # the user's settings
    ) -> None:
        super().__init__()
        self.runs = runs
        self.refresh_s = refresh_s
        self.settings = settings
        self.session: Session | None = None
        self.leaving = False
        self.busy = ""
        self.run_ended_signal: Signal[Run] = Signal(self, "run ended")
        self.finished: list[EndedRun] = []  # runs of this session, in order; the last is printed at the end
        self.watch_load = watch_load
        self._warm, self._terms, self._calm = warm, terms, calm
        self._check = LaunchCheck()
        self._keyboard = Keyboard(self)
        self._door = Door()
        self._first = first
        self._begun = begun
        self._threads = threads or ThreadPoolExecutor(1, "lab")  # one thread: at most one run at a time

    def on_mount(self) -> None:
        self.set_keymap(keymap(self.settings.keys))
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):  # SIGHUP: the terminal was closed; the ranks must end, too
            loop.add_signal_handler(number, self._end, 128 + number)
        self.theme_changed_signal.subscribe(self, self._keep_theme)
        self.screen_change_signal.subscribe(self, lambda _: self._check.cancel_unless_on(self._full_screen()))
        first, begun = self._first, self._begun
        self.busy = self._calm.busy_so_far() if self._calm else ""
        if first is not None and self.busy and can_wait(first):
            self.push_screen(Lab())  # a screen below the question
            self.launch(lambda: first)
        elif first is not None:
            self.run_preset(first)
        if begun is not None:
            self.push_screen(Lab())  # a screen to look at while journals are read
            self.resume(lambda: begun)
        self._keyboard.settle(self._keyboard.way())  # keys typed before the first screen opens are meant for it

    def _keep_theme(self, theme: Theme) -> None:
        try:
            settings_file.save_theme(theme.name)
        except SettingsError as error:
            self.complain("The theme is not saved", str(error))

    async def on_event(self, event: Event) -> None:
        """Process keys one after the other. Textual calls this for each event, also for keys that no widget used."""
        if not isinstance(event, Typed) or event.is_forwarded:
            await super().on_event(event)
        elif self._keyboard.may_act(event):
            way = self._keyboard.way()
            await super().on_event(event)
            self._keyboard.settle(way)

    def get_default_screen(self) -> Screen[None]:
        """Return the first screen on the stack (called by Textual)."""
        return Bottom()

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Return the filters for each drawn line (called by Textual)."""
        return [*super().get_line_filters(), self._door]

    def _end(self, code: int) -> None:
        self.leaving = True  # quit without a question; finished launches are kept
        self.exit(return_code=code)

    def _handle_exception(self, error: Exception) -> None:
        # While the app exits, Textual composes no more widgets, but still sends Mount to those that it is mounting. A
        # widget that then looks for its children (e.g. Textual's Select) finds none; ignore that error. Textual has no
        # public method for that.
        if self.is_running and self.return_code is None:
            super()._handle_exception(error)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Yield the command palette's entries: the console's own, which replace Textual's."""
        from ddptui.tui.commands import keep_picture, lab_commands

        yield from lab_commands(self, screen)
        yield SystemCommand("Theme", "Choose other colors", self.action_change_theme)
        yield SystemCommand("Screenshot", "Save a picture of this screen (SVG)", partial(keep_picture, self, screen))
        yield SystemCommand("Help", "Show what the keys do", self.action_help)
        yield SystemCommand("Quit", "Quit; asks first if a run is under way", self.action_leave)

    def on_ready(self) -> None:
        gc.enable()  # it was disabled so that the first screen appears sooner
        preset = self._first or (self._begun and self._begun.preset)
        if self._warm is not None and (preset is None or needs_warm_parent(preset)):
            self._threads.submit(self._warm.start)  # imports torch while presets are read

    @work(group="launch")
    async def launch(self, prepare: Callable[[], Preset]) -> None:
        """Check a preset in a thread, then run it. `prepare` returns the checked preset; it may raise PresetError."""

        async def start(preset: Preset) -> None:
            if await self._is_wanted(preset):
                self.run_preset(preset)

        await self._check_and_start(prepare, start, "Not started")

    def run_preset(self, preset: Preset) -> None:
        """Start a run of a checked preset, and show it."""
        try:
            run = Run.create(self.runs, preset, describe(in_console=True))
            self._follow(run, preset, {}, run.held())
        except RunError as error:
            self.complain("Not started", str(error))

    @work(group="launch")
    async def resume(self, begin: "Callable[[], Resumption]") -> None:
        """Resume a run, and show it. `begin` locks the run; it may raise RunError and PresetError."""

        def prepare() -> "tuple[Resumption, Outcomes]":
            resumption = begin()
            with resumption.lock.pop_all() as lock:
                outcomes = resumption.finished()
                return resumption._replace(lock=lock.pop_all()), outcomes

        async def start(checked: "tuple[Resumption, Outcomes]") -> None:
            (run, preset, lock), outcomes = checked
            if not await self._is_wanted(preset):
                lock.close()
                return
            run.note_resumption(describe(in_console=True))
            self._follow(run, preset, outcomes, lock)

        await self._check_and_start(prepare, start, "Not resumed")

    async def _check_and_start(
        self, prepare: Callable[[], Checked], start: Callable[[Checked], Awaitable[None]], title: str
    ) -> None:
        if self.session is not None:  # two runs would compete for the cores
            self.complain("Not started", "another run is under way: stop it, or wait until it ends")
        elif not self._check.is_pending:  # pressing the key again is not an error
            try:
                checked = await self._check.run(prepare, self._full_screen())
                if checked is not None:
                    await start(checked)
            except (PresetError, RunError, RunLost, OSError) as error:
                self.complain(title, str(error))

    async def _is_wanted(self, preset: Preset) -> bool:
        """Whether to start a run now; asks the user if other programs keep this machine busy."""
        from ddptui.tui.screens.dialogs import BusyMachine

        return not self.busy or not can_wait(preset) or await self.push_screen_wait(BusyMachine(self.busy)) is True

    def action_cancel_check(self) -> None:
        self._check.cancel()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action != "cancel_check" or self._check.is_pending

    def _full_screen(self) -> Screen[object]:
        return next(screen for screen in reversed(self.screen_stack) if not screen.is_modal)

    def _follow(self, run: Run, preset: Preset, outcomes: "Outcomes", lock: AbstractContextManager[object]) -> None:
        from ddptui.run.session import Session

        terms, self._terms = self._terms, None
        self.session = Session(preset, run, self._threads, outcomes, self._warm, terms, lock)
        self.push_screen(screen_of(self.session))

    def run_ended(self, session: "Session") -> None:
        """Record that all ranks of this run have ended."""
        self.session = None
        self.finished.append(EndedRun(session.run, session.preset, session.results))
        self.run_ended_signal.publish(session.run)

    def show_results(self, session: "Session") -> None:
        """Replace the current screen, which followed this run, with its results."""
        self.switch_screen(screen_of(EndedRun(session.run, session.preset, session.results)))

    @work(exclusive=True, group="open")
    async def open_run(self, run: Run) -> None:
        """Show the results of a run on disk."""
        from ddptui.store.outcomes import results_of

        def read() -> EndedRun:
            preset = run.preset()
            return EndedRun(run, preset, results_of(run, preset))

        await self._open(read, "Cannot be opened")

    @work(exclusive=True, group="open")
    async def compare(self, a: Run, b: Run) -> None:
        """Show the results of two runs on disk as one."""
        from ddptui.run.compare import compare_on_disk

        await self._open(lambda: EndedRun(*compare_on_disk(a, b)), "Cannot be compared")

    @work(exclusive=True, group="open")
    async def replay(self, run: Run, trial: str | None = None) -> None:
        """Replay a run on disk, from the first step of a trial on."""
        from ddptui.run.playback import Playback, in_a_thread

        def read() -> Playback:
            playback = Playback(run, run.preset(), work=in_a_thread)
            if trial is not None and not playback.seek_trial(trial):
                self.notify(f"{trial} was not launched.", title="Replay from the beginning", markup=False)
            return playback

        await self._open(read, "Cannot be replayed")

    async def _open(self, read: "Callable[[], Playback | EndedRun]", title: str) -> None:
        notice = self.set_timer(SOON_S, partial(self.notify, "Reading the run …", timeout=3))
        try:  # journals may be long, so a thread reads them
            self.push_screen(screen_of(await in_background(read)))
        except RunError as error:
            self.complain(title, str(error))
        finally:
            notice.stop()

    def complain(self, title: str, error: str) -> None:
        """Show an error for some seconds."""
        # Without markup, since paths and names may contain "[": Textual fails on "[/", even if escaped.
        self.notify(brief(error), title=title, severity="error", timeout=ERROR_STAYS_S, markup=False)

    def action_runs(self) -> None:
        """Show the list of earlier runs."""
        from ddptui.tui.screens.runs import RunsScreen

        self.push_screen(RunsScreen())

    def action_help(self) -> None:
        """Show what the keys of the current screen do."""
        from ddptui.tui.screens.dialogs import HelpScreen

        if not isinstance(self.screen, HelpScreen):
            self.push_screen(HelpScreen(self.screen))

    def action_stay(self) -> None:
        """Explain why the console cannot be suspended like other programs."""
        why = "While suspended, it could neither read from the ranks nor end them. Open another terminal."
        self.notify(why, title="The console cannot be suspended", severity="warning", markup=False)

    @work  # only a worker can wait for a dialog
    async def action_leave(self) -> None:
        """Quit; if a run is under way, ask first."""
        from ddptui.tui.screens.dialogs import may_stop

        if self.session is not None and not self.session.is_over and not self.leaving:
            question = "Stop the run and quit? Finished launches are kept."
            if not await may_stop(self, self.session.terms, question, yes="Stop and quit"):
                return
        self.leaving = True
        self.exit(0)


if TYPE_CHECKING:

    def _as_screens_see_it(console: Console) -> ConsoleApp:  # screens cast the app to ConsoleApp: mypy checks it here
        return console
