"""What screens share: the base of full screens, and the console as they see it."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from textual.app import ComposeResult
from textual.events import Resize
from textual.geometry import Size
from textual.screen import Screen
from textual.widgets import Footer

from ddptui.config.preset import Preset
from ddptui.tui.widgets.frame import TitleBar, TooSmall

if TYPE_CHECKING:  # late: the first picture must not wait for them
    from ddptui.run.session import Session
    from ddptui.store.runs import Run

# The fewest cells from which a screen has the class. Common terminals: 80×24, 120×40, 200×60.
WIDTHS = ((180, "-huge"), (110, "-wide"), (60, "-narrow"), (0, "-tiny"))
HEIGHTS = ((54, "-high"), (34, "-tall"), (16, "-short"), (0, "-flat"))


def size_classes(size: Size) -> dict[str, bool]:
    """Return, by class, whether a screen of this size has it: one of WIDTHS and one of HEIGHTS."""
    classes = {name: False for _, name in (*WIDTHS, *HEIGHTS)}
    for cells, limits in ((size.width, WIDTHS), (size.height, HEIGHTS)):
        classes[next(name for fewest, name in limits if cells >= fewest)] = True
    return classes


class ConsoleApp(Protocol):
    """What a screen may ask of the app, which imports the screens and so cannot be imported by them."""

    runs: Path  # the folder of runs
    refresh_s: float  # between two updates of a screen that follows a run
    session: "Session | None"  # the run that is under way
    leaving: bool  # the app is about to exit

    def launch(self, prepare: Callable[[], Preset]) -> object:
        """Check a preset in a thread, start it, and show the run. `prepare` may raise PresetError."""

    def resume(self, run: "Run", prepare: Callable[[], Preset]) -> object:
        """Check the preset of a run in a thread, launch what is missing, and show the run."""

    def open_run(self, run: "Run") -> object:
        """Show the results of a run on disk."""

    def replay(self, run: "Run") -> object:
        """Show a run on disk as it went."""

    def run_ended(self, session: "Session") -> None:
        """Note that no rank of this run is left."""

    def show_results(self, session: "Session") -> None:
        """Replace the screen that followed this run by its results."""

    def complain(self, title: str, error: str) -> None:
        """Show an error for some seconds."""

    def action_runs(self) -> None:
        """Show the list of earlier runs."""


class LabScreen(Screen[None]):
    """A full screen: a title bar, its own content, a footer. Below 60×16 (-tiny or -flat) only a card shows."""

    PURPOSE = ""  # one line, for the help screen

    def compose(self) -> ComposeResult:
        yield TitleBar()
        yield from self.compose_content()
        yield Footer()
        yield TooSmall()

    def compose_content(self) -> ComposeResult:
        """Yield the widgets between title bar and footer."""
        raise NotImplementedError

    # Textual sets the classes of its own breakpoints after the first layout, so for a moment every pane would show.
    # It calls these two handlers before its own, which lay the screen out.

    def on_screen_resume(self) -> None:
        self.update_classes(size_classes(self.app.size), animate=False)

    def on_resize(self, event: Resize) -> None:
        self.update_classes(size_classes(event.size), animate=False)

    @property
    def console_app(self) -> ConsoleApp:
        """The console, as far as screens may know it."""
        return cast(ConsoleApp, self.app)
