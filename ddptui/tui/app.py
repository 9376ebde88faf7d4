"""The console: its screens, and how one leads to another.

Most screens are imported when they are first shown, so that the first picture appears sooner.
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

ERROR_STAYS_S = 10  # twice Textual's default: an error has more to read than a notice

Checked = TypeVar("Checked")


def screen_of(feed: "Session | Playback | EndedRun") -> Screen[None]:
    """Return the screen that follows a run or a replay, or that shows the results of a run."""
    if feed.preset.kind == "primitives":  # one screen for all three: times fill in where they will stay
        from ddptui.tui.screens.primitives import PrimitivesScreen

        return PrimitivesScreen(feed)
    if isinstance(feed, EndedRun):
        from ddptui.tui.screens.result import ResultScreen

        return ResultScreen(*feed)
    from ddptui.tui.screens.run import RunScreen

    return RunScreen(feed)


class Bottom(Screen[None]):
    """The screen below all others, which is never shown. Coming back to it opens the lab, which is made only then."""

    def on_screen_resume(self) -> None:
        if self.is_active:
            self.app.push_screen(Lab())


def stored_commands() -> type[Provider]:
    """Return the palette's provider of presets and runs."""
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
        bound("quit", "leave", "Quit", show=False),  # some terminals keep ctrl+q for themselves, VS Code's for one
        Binding("ctrl+q", "leave", "Quit", show=False, priority=True),
        Binding("ctrl+z", "stay", "Suspend", show=False),
        # Before the screens' own escape, and disabled while nothing is checked.
        Binding("escape", "cancel_check", "Cancel the check", show=False, priority=True),
    ]

    def __init__(
        self,
        runs: Path,  # the folder of runs
        first: Preset | None = None,  # to run at once; checked
        begun: "Resumption | None" = None,  # to resume at once
        *,
        threads: ThreadPoolExecutor | None = None,  # where a run's session works
        warm: "WarmParent | None" = None,  # of all runs; None: each has its own
        watch_load: bool = False,  # look at what else this host does, while no run is under way
        terms: "Terms | None" = None,  # on which the first preset's command is watched
        calm: "Calm | None" = None,  # how busy this machine is at the start; None: the first run starts unasked
        refresh_s: float = 0.25,  # between two updates of a run's screen: 10 Hz would take a quarter of a core
        settings: Settings = NO_SETTINGS,  # the user's
    ) -> None:
        super().__init__()
        self.runs = runs
        self.refresh_s = refresh_s
        self.settings = settings
        self.session: Session | None = None
        self.leaving = False
        self.busy = ""
        self.run_ended_signal: Signal[Run] = Signal(self, "run ended")
        self.finished: list[EndedRun] = []  # of this session, in order; the last is printed when the console closes
        self.watch_load = watch_load
        self._warm, self._terms, self._calm = warm, terms, calm
        self._check = LaunchCheck()
        self._keyboard = Keyboard(self)
        self._door = Door()
        self._first = first
        self._begun = begun
        self._threads = threads or ThreadPoolExecutor(1, "lab")  # one: at most one run at a time

    def on_mount(self) -> None:
        self.set_keymap(keymap(self.settings.keys))
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):  # SIGHUP: the terminal was closed. The ranks must end, too
            loop.add_signal_handler(number, self._end, 128 + number)
        self.theme_changed_signal.subscribe(self, self._keep_theme)
        self.screen_change_signal.subscribe(self, lambda _: self._check.cancel_unless_on(self._full_screen()))
        first, begun = self._first, self._begun
        self.busy = self._calm.busy_so_far() if self._calm else ""
        if first is not None and self.busy and can_wait(first):
            self.push_screen(Lab())  # the question needs a screen below it
            self.launch(lambda: first)
        elif first is not None:
            self.run_preset(first)
        if begun is not None:
            self.push_screen(Lab())  # journals are read, which some screen must show
            self.resume(lambda: begun)
        self._keyboard.settle(self._keyboard.way())  # what is typed before the first screen has opened belongs to it

    def _keep_theme(self, theme: Theme) -> None:
        try:
            settings_file.save_theme(theme.name)
        except SettingsError as error:
            self.complain("For this session only", str(error))

    async def on_event(self, event: Event) -> None:
        """Act on keys one after the other. Textual calls this for each event, also for keys that come back unused."""
        if not isinstance(event, Typed) or event.is_forwarded:
            await super().on_event(event)
        elif self._keyboard.may_act(event):
            way = self._keyboard.way()
            await super().on_event(event)
            self._keyboard.settle(way)

    def get_default_screen(self) -> Screen[None]:
        """Return the first screen on the stack. Textual asks for it."""
        return Bottom()

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Return what each drawn line goes through. Textual asks for it."""
        return [*super().get_line_filters(), self._door]

    def _end(self, code: int) -> None:
        self.leaving = True  # without a question; finished launches are kept
        self.exit(return_code=code)

    def _handle_exception(self, error: Exception) -> None:
        # Once the app is to exit or is being closed, Textual composes no more widgets, but still tells those that it is
        # mounting that they are mounted. A widget that then looks for its children (Textual's own Select does) finds
        # none: no error.
        if self._running and not self._exit:
            super()._handle_exception(error)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Yield the palette's entries: the console's own, and in place of Textual's those that do what keys do here."""
        from ddptui.tui.commands import keep_picture, lab_commands

        yield from lab_commands(self, screen)
        yield SystemCommand("Theme", "Choose other colors", self.action_change_theme)
        yield SystemCommand("Screenshot", "Keep a picture of this screen (SVG)", partial(keep_picture, self, screen))
        yield SystemCommand("Help", "What the keys do", self.action_help)
        yield SystemCommand("Quit", "Asks first while a run is under way", self.action_leave)

    def on_ready(self) -> None:
        gc.enable()  # it was off so as not to delay the first picture
        preset = self._first or (self._begun and self._begun.preset)
        if self._warm is not None and (preset is None or needs_warm_parent(preset)):
            self._threads.submit(self._warm.start)  # imports while presets are read

    @work(group="launch")
    async def launch(self, prepare: Callable[[], Preset]) -> None:
        """Check a preset in a thread, then run it. `prepare` may raise PresetError."""

        async def start(preset: Preset) -> None:
            if await self._is_wanted(preset):
                self.run_preset(preset)

        await self._check_and_start(prepare, start, "Not started")

    def run_preset(self, preset: Preset) -> None:
        """Start a run of a preset that was checked, and show it."""
        try:
            run = Run.create(self.runs, preset, describe(in_console=True))
            self._follow(run, preset, {}, run.held())
        except RunError as error:
            self.complain("Not started", str(error))

    @work(group="launch")
    async def resume(self, begin: "Callable[[], Resumption]") -> None:
        """Launch what is missing in a run, and show it. `begin`: locks it; may raise RunError and PresetError."""

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
        if self.session is not None:  # two runs would take the cores from each other
            self.complain("Not started", "another run is under way")
        elif not self._check.is_pending:  # a repeated key is no error
            try:
                checked = await self._check.run(prepare, self._full_screen())
                if checked is not None:
                    await start(checked)
            except (PresetError, RunError, RunLost, OSError) as error:
                self.complain(title, str(error))

    async def _is_wanted(self, preset: Preset) -> bool:
        """Whether a run is to start now; asks, if other programs take this machine's cores."""
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
        """Note that no rank of this run is left."""
        self.session = None
        self.finished.append(EndedRun(session.run, session.preset, session.results))
        self.run_ended_signal.publish(session.run)

    def show_results(self, session: "Session") -> None:
        """Replace the screen that followed this run, which is the current one, by its results."""
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
        """Show a run on disk as it went, from the first step of a trial on."""
        from ddptui.run.playback import Playback, in_a_thread

        def read() -> Playback:
            playback = Playback(run, run.preset(), work=in_a_thread, read=in_a_thread)
            if trial is not None and not playback.seek_trial(trial):
                self.notify(f"{trial} was not launched.", title="From the beginning", markup=False)
            return playback

        await self._open(read, "Cannot be replayed")

    async def _open(self, read: "Callable[[], Playback | EndedRun]", title: str) -> None:
        try:  # journals may be long: a thread reads them
            self.push_screen(screen_of(await in_background(read)))
        except RunError as error:
            self.complain(title, str(error))

    def complain(self, title: str, error: str) -> None:
        """Show an error for some seconds."""
        # Without markup, since paths and names may contain [: Textual fails on "[/", even an escaped one.
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
        """Say why the console is not suspended, as a shell's other programs are."""
        why = "It would neither read from ranks nor end them. Open another terminal."
        self.notify(why, title="The console cannot be suspended", severity="warning", markup=False)

    @work  # only a worker can wait for a dialog
    async def action_leave(self) -> None:
        """Quit; while a run is under way, after a question."""
        from ddptui.tui.screens.dialogs import may_stop

        if self.session is not None and not self.session.is_over and not self.leaving:
            question = "Stop the run and quit? What is finished is kept."
            if not await may_stop(self, self.session.terms, question, yes="Stop and quit"):
                return
        self.leaving = True
        self.exit(0)


if TYPE_CHECKING:

    def _as_screens_see_it(console: Console) -> ConsoleApp:  # screens cast to it: here mypy checks that they may
        return console
