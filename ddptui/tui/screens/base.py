"""The base class of full screens, and the console's interface for screens."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple, cast

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Resize, ScreenResume
from textual.geometry import Size
from textual.screen import Screen
from textual.signal import Signal

from ddptui.config.preset import Preset
from ddptui.config.settings import Settings
from ddptui.tui.keys import bound
from ddptui.tui.widgets.frame import Keys, PaneGrid, TitleBar, TooSmall

if TYPE_CHECKING:  # only for types, so that the first screen appears sooner
    from ddptui.analysis.results import Results
    from ddptui.run.prepare import Resumption
    from ddptui.run.runner import Session
    from ddptui.store.runs import Run

# CSS classes of a screen by its minimum width and height in cells. Common terminals: 80×24, 120×40, 200×60.
WIDTHS = ((180, "-huge"), (110, "-wide"), (60, "-narrow"), (0, "-tiny"))
HEIGHTS = ((54, "-high"), (34, "-tall"), (22, "-short"), (16, "-short -low"), (0, "-flat"))

ZOOM_KEY = bound("zoom", "zoom", "Zoom", show=False, tooltip="Show the chosen pane on the whole screen, and back")


def pane_keys(titles: Mapping[str, str]) -> list[BindingType]:
    """Return the keys of a PanedScreen: a digit for each pane, and those for zoom and for the next pane."""
    return [
        *(Binding(f"{n}", f"pane('{name}')", title, show=False) for n, (name, title) in enumerate(titles.items(), 1)),
        ZOOM_KEY,
        Binding("tab", "next_pane(1)", "Next pane", show=False),  # also a pane that is hidden now
        Binding("shift+tab", "next_pane(-1)", "Previous pane", show=False),
    ]


class EndedRun(NamedTuple):
    """A finished run on disk, which is shown as a whole."""

    run: "Run"
    preset: Preset
    results: "Results"


class ConsoleApp(App[int]):
    """What screens use of the app, which imports them, so that they cannot import it. Documented in Console."""

    runs: Path  # the folder of runs
    refresh_s: float  # time between two updates of a screen that follows a run
    settings: Settings  # the user's settings
    run_ended_signal: Signal["Run"]  # published when all ranks of a run have ended
    session: "Session | None" = None  # the session of the running run
    watch_load = False  # whether to measure the load of other programs while no run is active
    busy = ""  # which other programs kept this host's cores busy at the last reading; empty: none
    leaving = False  # the app is about to exit

    def launch(self, prepare: Callable[[], Preset]) -> None: ...
    def resume(self, begin: "Callable[[], Resumption]") -> None: ...
    def open_run(self, run: "Run") -> None: ...
    def compare(self, a: "Run", b: "Run") -> None: ...
    def replay(self, run: "Run", trial: str | None = None) -> None: ...
    def run_ended(self, session: "Session") -> None: ...
    def complain(self, title: str, error: str) -> None: ...
    def action_runs(self) -> None: ...


class LabScreen(Screen[None]):
    """A full screen with title bar, content and footer. Below 60×16 cells (-tiny or -flat) it shows only a card."""

    ALLOW_IN_MAXIMIZED_VIEW = "Keys"
    PURPOSE = ""  # one line for the help screen
    SPARE_KEYS: ClassVar[Sequence[str]] = ()  # actions whose keys the footer shows if there is room

    def compose(self) -> ComposeResult:
        self.set_size_classes(self.app.size, restyle=False)  # first, since Textual may lay out widgets at any time
        yield TitleBar()
        yield from self.compose_content()
        yield Keys()
        yield TooSmall()  # on a layer above the rest; the styles decide whether it is visible

    def compose_content(self) -> ComposeResult:
        """Yield the widgets between title bar and footer."""
        raise NotImplementedError

    # Textual sets the classes of its own breakpoints only after a layout, so all panes would appear for a moment. It
    # calls these two before its own methods, which lay the screen out.

    def on_screen_resume(self, event: ScreenResume) -> None:
        self.set_size_classes(self.app.size, restyle=not event.refresh_styles)  # Textual may restyle right after this

    def on_resize(self, event: Resize) -> None:
        self.set_size_classes(event.size)

    def set_size_classes(self, size: Size, *, restyle: bool = True) -> None:
        """Set the classes for a size of the terminal, and let the panes follow."""
        sizes = ((size.width, WIDTHS), (size.height, HEIGHTS))
        chosen = " ".join(next(names for fewest, names in limits if cells >= fewest) for cells, limits in sizes).split()
        every = " ".join(names for _, names in (*WIDTHS, *HEIGHTS)).split()
        # All at once, since each change restyles the whole screen.
        self.update_classes({name: name in chosen for name in every}, restyle, animate=False)
        for panes in self.query(PaneGrid):
            if panes.is_mounted:
                panes.make_room()

    def action_zoom(self) -> None:
        """Show the chosen pane on the whole screen, and back."""
        if self.maximized is None:  # Textual also minimizes on escape, before it looks for bindings
            self.maximized = self.query_one(".pane.-chosen")  # not `maximize`, which refuses panes of text
        else:
            self.minimize()

    def copy(self, text: str, what: str) -> None:
        """Send a text to the terminal's clipboard. Terminals do not confirm it, and many ignore it."""
        self.app.copy_to_clipboard(text)
        text = f"{what}\nIf it does not arrive, the terminal does not allow it."
        self.notify(text, title="Sent to the terminal's clipboard", markup=False)

    @property
    def console_app(self) -> ConsoleApp:
        """The app, with its interface for screens."""
        return cast(ConsoleApp, self.app)


class PanedScreen(LabScreen):
    """The base of screens with a grid of panes."""

    panes: PaneGrid  # a query

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable the digits of panes that have no content."""
        return parameters[0] in self.panes.present if action == "pane" else super().check_action(action, parameters)

    def action_pane(self, name: str) -> None:
        """Choose a pane; if one is zoomed, zoom this one instead."""
        is_zoomed = self.maximized is not None
        self.panes.choose(name)  # ends a zoom, since the focus leaves the zoomed pane
        if is_zoomed:
            self.maximized = self.panes.pane(name)

    def action_next_pane(self, by: int) -> None:
        present = self.panes.present
        self.action_pane(present[(present.index(self.panes.chosen) + by) % len(present)])
