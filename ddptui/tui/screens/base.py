"""The base class of full screens, and the console's interface for screens."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol, cast

from textual.app import ComposeResult
from textual.events import ScreenResume
from textual.geometry import Size
from textual.screen import Screen
from textual.signal import Signal

from ddptui.config.preset import Preset
from ddptui.config.settings import Settings
from ddptui.tui.keys import bound
from ddptui.tui.widgets.footer import Keys
from ddptui.tui.widgets.frame import TitleBar, TooSmall

if TYPE_CHECKING:  # only for types, so that the first screen appears sooner
    from ddptui.analysis.results import Results
    from ddptui.run.resume import Resumption
    from ddptui.run.session import Session
    from ddptui.store.runs import Run

# CSS classes of a screen by its minimum width and height in cells. Common terminals: 80×24, 120×40, 200×60.
WIDTHS = ((180, "-huge"), (110, "-wide"), (60, "-narrow"), (0, "-tiny"))
HEIGHTS = ((54, "-high"), (34, "-tall"), (22, "-short"), (16, "-short -low"), (0, "-flat"))

CHOSEN = ".pane.-chosen"
SENT = "Sent to the terminal's clipboard"
ZOOM_KEY = bound("zoom", "zoom", "Zoom", show=False, tooltip="Show the chosen pane on the whole screen, and back")
CURVES_KEY = bound(
    "curves", "curves", "Curves", show=False, tooltip="Show the losses or the step times of all trials in one chart"
)


class EndedRun(NamedTuple):
    """A finished run on disk, which is shown as a whole."""

    run: "Run"
    preset: Preset
    results: "Results"


class ConsoleApp(Protocol):
    """The app's interface for screens. The app imports the screens, so they cannot import the app."""

    runs: Path  # the folder of runs
    refresh_s: float  # time between two updates of a screen that follows a run
    settings: Settings  # the user's settings
    session: "Session | None"  # the session of the running run
    watch_load: bool  # whether to measure the load of other programs while no run is active
    busy: str  # which other programs kept this host's cores busy at the last reading; empty: none
    leaving: bool  # the app is about to exit
    run_ended_signal: Signal["Run"]  # published when all ranks of a run have ended

    # Documented in Console.
    def launch(self, prepare: Callable[[], Preset]) -> object: ...
    def resume(self, begin: "Callable[[], Resumption]") -> object: ...
    def open_run(self, run: "Run") -> object: ...
    def compare(self, a: "Run", b: "Run") -> object: ...
    def replay(self, run: "Run", trial: str | None = None) -> object: ...
    def run_ended(self, session: "Session") -> None: ...
    def show_results(self, session: "Session") -> None: ...
    def complain(self, title: str, error: str) -> None: ...
    def action_runs(self) -> None: ...


class LabScreen(Screen[None]):
    """A full screen with title bar, content and footer. Below 60×16 cells (-tiny or -flat) it shows only a card."""

    PURPOSE = ""  # one line for the help screen
    SPARE_KEYS: ClassVar[Sequence[str]] = ()  # actions whose keys the footer shows if there is room

    @property
    def explained(self) -> dict[str, Sequence[tuple[str, str]]]:
        """More entries for the help screen: heading -> (name, sentence)."""
        return {}

    def compose(self) -> ComposeResult:
        self._set_size_classes(self.app.size, restyle=False)  # first, since Textual may lay out widgets at any time
        yield TitleBar()
        yield from self.compose_content()
        yield Keys()
        yield TooSmall()  # on a layer above the rest; the styles decide whether it is visible

    def compose_content(self) -> ComposeResult:
        """Yield the widgets between title bar and footer."""
        raise NotImplementedError

    # Textual sets the classes of its own breakpoints only after a layout, so all panes would appear for a moment.

    def on_screen_resume(self, event: ScreenResume) -> None:  # called before Textual's own, which lays the screen out
        self._set_size_classes(self.app.size, restyle=not event.refresh_styles)  # Textual may restyle right after this

    def _screen_resized(self, size: Size) -> None:
        self._set_size_classes(size)  # also needed below a dialog, which lays out the screen below it
        super()._screen_resized(size)

    def _set_size_classes(self, size: Size, *, restyle: bool = True) -> None:
        classes = {name: False for _, names in (*WIDTHS, *HEIGHTS) for name in names.split()}
        for cells, limits in ((size.width, WIDTHS), (size.height, HEIGHTS)):
            names = next(names for fewest, names in limits if cells >= fewest)
            classes |= dict.fromkeys(names.split(), True)
        self.update_classes(classes, restyle, animate=False)  # all at once: each change restyles the whole screen

    def action_zoom(self) -> None:
        """Show the chosen pane on the whole screen, and back."""
        if self.maximized is None:  # Textual also minimizes on escape, before it looks for bindings
            self.maximized = self.query_one(CHOSEN)  # not `maximize`, which refuses panes of text
        else:
            self.minimize()

    def keep_zoomed(self) -> None:
        """If a pane is zoomed, zoom the chosen pane instead."""
        if self.maximized is not None:
            self.maximized = self.query_one(CHOSEN)

    def copy(self, text: str, what: str) -> None:
        """Send a text to the terminal's clipboard. Terminals do not confirm it, and many ignore it."""
        self.app.copy_to_clipboard(text)
        self.notify(f"{what}\nIf it does not arrive, the terminal does not allow it.", title=SENT, markup=False)

    @property
    def console_app(self) -> ConsoleApp:
        """The app, with its interface for screens."""
        return cast(ConsoleApp, self.app)
