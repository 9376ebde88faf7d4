"""What screens share: the base of full screens, and the console as they see it."""

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

if TYPE_CHECKING:  # late: the first picture must not wait for them
    from ddptui.analysis.results import Results
    from ddptui.run.resume import Resumption
    from ddptui.run.session import Session
    from ddptui.store.runs import Run

# The fewest cells from which a screen has the classes. Common terminals: 80×24, 120×40, 200×60.
WIDTHS = ((180, "-huge"), (110, "-wide"), (60, "-narrow"), (0, "-tiny"))
HEIGHTS = ((54, "-high"), (34, "-tall"), (22, "-short"), (16, "-short -low"), (0, "-flat"))

CHOSEN = ".pane.-chosen"
SENT = "Sent to the terminal's clipboard"
ZOOM_KEY = bound("zoom", "zoom", "Zoom", show=False, tooltip="The chosen pane on the whole screen, and back")
CURVES_KEY = bound(
    "curves", "curves", "Curves", show=False, tooltip="The losses or the step times of all trials in one chart"
)


class EndedRun(NamedTuple):
    """A run on disk that is shown as a whole, and not followed."""

    run: "Run"
    preset: Preset
    results: "Results"


class ConsoleApp(Protocol):
    """What a screen may ask of the app, which imports the screens and so cannot be imported by them."""

    runs: Path  # the folder of runs
    refresh_s: float  # between two updates of a screen that follows a run
    settings: Settings  # the user's
    session: "Session | None"  # the run that is under way
    watch_load: bool  # look at what else this host does, while no run is under way
    busy: str  # what else takes this host's cores, by the last reading; empty: nothing
    leaving: bool  # the app is about to exit
    run_ended_signal: Signal["Run"]  # no rank of this run is left

    # What they do is said in Console.
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
    """A full screen: a title bar, its own content, a footer. Below 60×16 (-tiny or -flat) only a card shows."""

    PURPOSE = ""  # one line, for the help screen
    SPARE_KEYS: ClassVar[Sequence[str]] = ()  # actions whose keys the footer shows where it has room for more

    @property
    def explained(self) -> dict[str, Sequence[tuple[str, str]]]:
        """What the help screen explains besides keys, by heading: names with a sentence each."""
        return {}

    def compose(self) -> ComposeResult:
        self._set_size_classes(self.app.size, restyle=False)  # first: Textual may lay the widgets out at any time
        yield TitleBar()
        yield from self.compose_content()
        yield Keys()
        yield TooSmall()  # on a layer above the rest, where the styles show it

    def compose_content(self) -> ComposeResult:
        """Yield the widgets between title bar and footer."""
        raise NotImplementedError

    # Textual sets the classes of its own breakpoints after a layout, so for a moment every pane would show.

    def on_screen_resume(self, event: ScreenResume) -> None:  # called before Textual's own, which lays the screen out
        self._set_size_classes(self.app.size, restyle=not event.refresh_styles)  # else Textual does, right after this

    def _screen_resized(self, size: Size) -> None:
        self._set_size_classes(size)  # here, since a dialog lays out the screen below it
        super()._screen_resized(size)

    def _set_size_classes(self, size: Size, *, restyle: bool = True) -> None:
        classes = {name: False for _, names in (*WIDTHS, *HEIGHTS) for name in names.split()}
        for cells, limits in ((size.width, WIDTHS), (size.height, HEIGHTS)):
            names = next(names for fewest, names in limits if cells >= fewest)
            classes |= dict.fromkeys(names.split(), True)
        self.update_classes(classes, restyle, animate=False)  # in one go: each change restyles the whole screen

    def action_zoom(self) -> None:
        """Show the chosen pane on the whole screen, and back."""
        if self.maximized is None:  # Textual also minimizes on escape, before it looks for bindings
            self.maximized = self.query_one(CHOSEN)  # `maximize` refuses panes of text
        else:
            self.minimize()

    def keep_zoomed(self) -> None:
        """Give the whole screen to the chosen pane if another one had it."""
        if self.maximized is not None:
            self.maximized = self.query_one(CHOSEN)

    def copy(self, text: str, what: str) -> None:
        """Send a text to the terminal's clipboard. No answer comes back: many terminals ignore it."""
        self.app.copy_to_clipboard(text)
        self.notify(f"{what}\nIf it does not arrive: the terminal forbids it.", title=SENT, markup=False)

    @property
    def console_app(self) -> ConsoleApp:
        """The console, as far as screens may know it."""
        return cast(ConsoleApp, self.app)
