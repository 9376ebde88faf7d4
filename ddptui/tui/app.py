"""The console's app: opens its screens, starts and resumes runs, and quits.

Most screens are imported when they are first shown, so that the first screen appears sooner.
"""

import asyncio
import gc
import signal
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from textual import work
from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.command import Provider
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Event
from textual.filter import LineFilter
from textual.screen import Screen
from textual.signal import Signal
from textual.theme import Theme
from textual.worker import Worker

from ddptui.config.parser import PresetError
from ddptui.config.preset import Preset, needs_warm_parent
from ddptui.config.settings import NO_SETTINGS, Settings, SettingsError
from ddptui.host.machine import describe
from ddptui.run.prepare import can_wait
from ddptui.store import settings as settings_file
from ddptui.store.journal import RunLost
from ddptui.store.runs import Run, RunError
from ddptui.text.sanitize import brief
from ddptui.tui.background import in_background
from ddptui.tui.keys import bound, keymap
from ddptui.tui.screens.base import ConsoleApp, EndedRun
from ddptui.tui.screens.lab import Lab
from ddptui.tui.terminal import Keyboard, SanitizedFilter, TerminalDriver, Typed
from ddptui.tui.widgets.frame import TitleBar

if TYPE_CHECKING:
    from ddptui.engines.local.command import WatchMode
    from ddptui.engines.local.warm import WarmParent
    from ddptui.findings.repeat import Outcomes
    from ddptui.run.playback import Playback
    from ddptui.run.prepare import Calm, Resumption
    from ddptui.run.runner import Session

ERROR_STAYS_S = 10  # twice Textual's default: an error takes longer to read than a notice

PREPARING = "preparing … esc cancels"


class Beginning(NamedTuple):
    """A run that may start: its preset is checked. A run that is resumed is locked, and has outcomes."""

    preset: Preset
    run: Run | None = None  # None: a new one
    outcomes: "Outcomes | None" = None
    lock: ExitStack | None = None


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


class Console(ConsoleApp):
    """The app. Its exit code is 0, or 128 + the number of the signal that ended it."""

    TITLE = "ddptui"
    CSS_PATH = Path(__file__).with_name("app.tcss")
    COMMANDS = App.COMMANDS | {stored_commands}
    BINDINGS: ClassVar[list[BindingType]] = [
        bound("help", "help", "Help"),
        Binding("f1", "help", "Help", show=False),
        bound("quit", "leave", "Quit", show=False),  # needed since some terminals (VS Code) do not pass on ctrl+q
        Binding("ctrl+q", "leave", "Quit", show=False, priority=True),
        Binding("ctrl+z", "stay", "Suspend", show=False, system=True),
        # Has priority over the screens' own escape, but is disabled unless something is being prepared.
        Binding("escape", "cancel", "Cancel what is being prepared", show=False, priority=True),
    ]

    def __init__(
        self,
        runs: Path,  # the folder of runs
        first: Preset | None = None,  # a checked preset to run at once
        begun: "Resumption | None" = None,  # a run to resume at once
        *,
        threads: ThreadPoolExecutor | None = None,  # runs the sessions of runs
        warm: "WarmParent | None" = None,  # shared by all runs; None: each run has its own
        terms: "WatchMode | None" = None,  # how to watch the first preset's command
        calm: "Calm | None" = None,  # measures how busy this machine is; None: start the first run without asking
        refresh_s: float = 0.25,  # time between two updates of a run's screen: 10 Hz would take a quarter of a core
        settings: Settings = NO_SETTINGS,  # the user's settings
    ) -> None:
        super().__init__()
        self.runs, self.refresh_s, self.settings = runs, refresh_s, settings
        self.run_ended_signal = Signal(self, "run ended")
        self.finished: dict[Path, EndedRun] = {}  # runs of this session by folder; the last one to end is printed first
        self._first, self._begun, self._warm, self._terms, self._calm = first, begun, warm, terms, calm
        self._preparation: Worker[None] | None = None  # its node is the screen where it was started
        self._keyboard, self._door = Keyboard(self), SanitizedFilter()
        self._threads = threads or ThreadPoolExecutor(1, "lab")  # one thread: at most one run at a time

    def get_driver_class(self) -> type[Driver]:
        default = super().get_driver_class()
        return TerminalDriver if default is LinuxDriver else default

    def on_mount(self) -> None:
        self.set_keymap(keymap(self.settings.keys))
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):  # SIGHUP: the terminal was closed; the ranks must end, too
            loop.add_signal_handler(number, self._end, 128 + number)
        self.theme_changed_signal.subscribe(self, self._keep_theme)
        self.screen_change_signal.subscribe(self, self._cancel_elsewhere, immediate=True)
        first, begun = self._first, self._begun
        self.busy = self._calm.busy_so_far() if self._calm else ""
        if first is not None and not self._must_wait(first):
            try:
                self._start(Beginning(first))
            except RunError as error:
                self.complain("Not started", str(error))
        elif first is not None:
            self.push_screen(Lab())  # a screen below the question
            self.launch(lambda: first)
        elif begun is not None:
            self.push_screen(Lab())  # a screen to look at while journals are read
            self.resume(lambda: begun)
        self._keyboard.settle(self._keyboard.nodes())  # keys typed before the first screen opens are meant for it

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
            nodes = self._keyboard.nodes()
            await super().on_event(event)
            self._keyboard.settle(nodes)

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

    def launch(self, prepare: Callable[[], Preset]) -> None:
        """Check a preset in a thread, then run it. `prepare` returns the checked preset; it may raise PresetError."""
        self._begin(lambda: Beginning(prepare()), "Not started")

    def resume(self, begin: "Callable[[], Resumption]") -> None:
        """Resume a run, and show it. `begin` locks the run; it may raise RunError and PresetError."""

        def prepare() -> Beginning:
            resumption = begin()
            with resumption.lock.pop_all() as lock:
                return Beginning(resumption.preset, resumption.run, resumption.finished(), lock.pop_all())

        self._begin(prepare, "Not resumed")

    def _begin(self, prepare: Callable[[], Beginning], failed: str) -> None:
        if self.session is not None:  # two runs would compete for the cores
            self.complain("Not started", "another run is under way: stop it, or wait until it ends")
        else:
            self._open(prepare, failed)

    def _must_wait(self, preset: Preset) -> bool:
        """Whether the machine is busy, and the preset can wait for it."""
        return bool(self.busy) and can_wait(preset)

    def open_run(self, run: Run) -> None:
        """Show the results of a run on disk."""
        from ddptui.store.overview import results_of

        def read() -> EndedRun:
            preset = run.preset()
            return EndedRun(run, preset, results_of(run, preset))

        self._open(read, "Cannot be opened")

    def compare(self, a: Run, b: Run) -> None:
        """Show the results of two runs on disk as one."""
        from ddptui.run.compare import compare_on_disk

        self._open(lambda: EndedRun(*compare_on_disk(a, b)), "Cannot be compared")

    def replay(self, run: Run, trial: str | None = None) -> None:
        """Replay a run on disk, from the first step of a trial on if that was launched."""
        from ddptui.run.playback import Playback

        def read() -> Playback:
            playback = Playback(run, run.preset())
            if trial is not None:
                playback.seek_trial(trial)
            return playback

        self._open(read, "Cannot be replayed")

    def _open(self, prepare: "Callable[[], Beginning | Playback | EndedRun]", failed: str) -> None:
        """Prepare a run, a replay or results in a thread, then show them. Escape, or leaving the screen, cancels it."""
        if not self._is_preparing:  # otherwise the key was pressed again
            screen = self._full_screen()
            self._preparation = screen.run_worker(self._prepare(prepare, failed, screen))

    async def _prepare(
        self, prepare: "Callable[[], Beginning | Playback | EndedRun]", failed: str, screen: Screen[object]
    ) -> None:
        from ddptui.tui.screens.dialogs import BusyMachine

        bars = [*screen.query(TitleBar)]
        try:
            for bar in bars:
                bar.activity = PREPARING
            ready = await in_background(prepare)
            if not isinstance(ready, Beginning):
                self.push_screen(screen_of(ready))
            elif not self._must_wait(ready.preset) or await self.push_screen_wait(BusyMachine(self.busy)) is not None:
                self._start(ready)
            elif ready.lock is not None:
                ready.lock.close()
        except (PresetError, RunError, RunLost, OSError) as error:
            self.complain(failed, str(error))
        finally:
            for bar in bars:
                bar.activity = ""

    def _start(self, new: Beginning) -> None:
        """Start or resume a run, and show it."""
        from ddptui.run.runner import Session

        preset, run, outcomes, lock = new
        if run is None:
            run = Run.create(self.runs, preset, describe(in_console=True))
        else:
            run.note_resumption(describe(in_console=True))
        mode, self._terms = self._terms, None
        self.session = Session(preset, run, self._threads, outcomes or {}, self._warm, mode, lock)
        self.push_screen(screen_of(self.session))

    def _full_screen(self) -> Screen[object]:
        return next(screen for screen in reversed(self.screen_stack) if not screen.is_modal)

    @property
    def _is_preparing(self) -> bool:
        return self._preparation is not None and not self._preparation.is_finished

    def _cancel_elsewhere(self, _: Screen[object]) -> None:
        """Cancel what is being prepared on another screen, and all workers of screens that were left: Textual removes
        a screen's widgets before it cancels the screen's workers, which would then look for these widgets."""
        if self._preparation is not None and self._preparation.node is not self._full_screen():
            self._preparation.cancel()
        for worker in self.workers:
            if worker.node is not self and not {*self.screen_stack} & {*worker.node.ancestors_with_self}:
                worker.cancel()

    def action_cancel(self) -> None:
        """Cancel what is being prepared: its result is discarded. The thread itself cannot be stopped."""
        if self._preparation is not None:
            self._preparation.cancel()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action != "cancel" or (self._is_preparing and not self.screen.is_modal)

    def run_ended(self, session: "Session") -> None:
        """Record that all ranks of this run have ended."""
        self.session = None
        self.finished.pop(session.run.folder, None)  # a run that was resumed comes last
        self.finished[session.run.folder] = EndedRun(session.run, session.preset, session.results)
        self.run_ended_signal.publish(session.run)

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
