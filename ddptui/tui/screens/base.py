"""What all screens have in common: breakpoints, a card where there is no room, help."""

from typing import TYPE_CHECKING, cast

from textual.app import ComposeResult
from textual.screen import Screen
from textual.widgets import Footer

from ddptui.tui.widgets.title_bar import TitleBar
from ddptui.tui.widgets.too_small import TooSmall

if TYPE_CHECKING:
    from ddptui.tui.app import Console


class LabScreen(Screen[None]):
    """A full screen: a title bar, its own content, a footer. At 80×24 it has the classes -narrow and -short, at 120×40
    -wide and -tall, at 200×60 -huge and -high; below 60×16 (-tiny or -flat) only a card is seen."""

    HORIZONTAL_BREAKPOINTS = [(0, "-tiny"), (60, "-narrow"), (110, "-wide"), (180, "-huge")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-flat"), (16, "-short"), (34, "-tall"), (54, "-high")]  # noqa: RUF012
    PURPOSE = ""  # one line, for the help screen

    def compose(self) -> ComposeResult:
        yield TitleBar()
        yield from self.compose_content()
        yield Footer()
        yield TooSmall()

    def compose_content(self) -> ComposeResult:
        raise NotImplementedError

    @property
    def console_app(self) -> "Console":
        return cast("Console", self.app)
