"""The first line of every screen: where one is, and how it goes."""

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.widgets import Static


class TitleBar(Horizontal):
    DEFAULT_CSS = """
    TitleBar {
        dock: top;
        height: 1;
        padding: 0 1;
        background: $panel;
        color: $foreground;
    }
    TitleBar > #where { width: 1fr; text-style: bold; }
    TitleBar > #how { width: auto; color: $text-muted; }
    """

    def compose(self) -> ComposeResult:
        yield Static("ddptui", id="where", markup=False)
        yield Static("", id="how", markup=False)

    def show(self, where: str, how: str) -> None:
        """Both sides of the line; names of trials and presets are data, never markup."""
        self.query_one("#where", Static).update(Content(where))
        self.query_one("#how", Static).update(Content(how))
