"""The card that covers a screen where the terminal is too small for it."""

from textual.app import RenderResult
from textual.widget import Widget

SMALLEST = (60, 16)


class TooSmall(Widget):
    """Says how large the terminal is, and has to be. The screens' styles show it."""

    DEFAULT_CSS = """
    TooSmall {
        display: none;
        layer: card;
        dock: top;
        width: 100%;
        height: 100%;
        content-align: center middle;
        text-align: center;
        background: $background;
        color: $text;
    }
    """

    def render(self) -> RenderResult:
        width, height = self.app.size
        return f"{width} × {height}: too small.\nddptui needs {SMALLEST[0]} × {SMALLEST[1]}."
