"""Widgets that draw themselves, alone in an app."""

from textual.app import App, ComposeResult

from ddptui.tui.widgets.charts import Canvas

SIZES = [(1, 1), (2, 1), (1, 9), (7, 3), (20, 2), (38, 6), (66, 7), (78, 20), (118, 12), (198, 50)]


class Alone(App[None]):
    """One widget, as large as the terminal."""

    CSS = "Canvas { width: 100%; height: 100%; }"

    def __init__(self, canvas: Canvas) -> None:
        super().__init__()
        self.canvas = canvas

    def compose(self) -> ComposeResult:
        yield self.canvas


def text_of(canvas: Canvas, width: int, height: int) -> list[str]:
    """What would be seen in so many cells, line by line, before anything is cut off."""
    return ["".join(text for text, _ in line).rstrip() for line in canvas.draw(width, height)]


def kinds_of(canvas: Canvas, width: int, height: int) -> set[str]:
    return {kind for line in canvas.draw(width, height) for text, kind in line if text.strip()}
