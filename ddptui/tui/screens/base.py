"""What all full screens share: classes for the terminal's size, and a card where there is too little room."""

from typing import cast

from textual.app import ComposeResult
from textual.events import Resize
from textual.geometry import Size
from textual.screen import Screen
from textual.widgets import Footer

from ddptui.tui.console import ConsoleApp
from ddptui.tui.widgets.frame import TitleBar, TooSmall

# The fewest cells from which a screen has the class. Common terminals: 80×24, 120×40, 200×60.
WIDTHS = ((180, "-huge"), (110, "-wide"), (60, "-narrow"), (0, "-tiny"))
HEIGHTS = ((54, "-high"), (34, "-tall"), (16, "-short"), (0, "-flat"))


def size_classes(size: Size) -> dict[str, bool]:
    """Return, by class, whether a screen of this size has it: one of WIDTHS and one of HEIGHTS."""
    classes = {name: False for _, name in (*WIDTHS, *HEIGHTS)}
    for cells, limits in ((size.width, WIDTHS), (size.height, HEIGHTS)):
        classes[next(name for fewest, name in limits if cells >= fewest)] = True
    return classes


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
