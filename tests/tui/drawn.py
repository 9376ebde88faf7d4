"""Widgets that draw themselves, alone in an app."""

from collections.abc import Iterator
from contextlib import contextmanager

from textual.app import App, ComposeResult

from ddptui.tui.widgets.canvas import Canvas


class Alone(App[None]):
    """One widget, as large as the terminal."""

    CSS = "Canvas { width: 100%; height: 100%; }"

    def __init__(self, canvas: Canvas) -> None:
        super().__init__()
        self.canvas = canvas

    def compose(self) -> ComposeResult:
        yield self.canvas


def text_of(canvas: Canvas, width: int, height: int) -> list[str]:
    """What would be seen in so many cells."""
    return ["".join(text for text, _ in line) for line in canvas.draw(width, height)]


@contextmanager
def no_wider_than(width: int) -> Iterator[list[str]]:
    """Collects lines, none of which may be longer."""
    lines: list[str] = []
    yield lines
    assert [line for line in lines if len(line.rstrip()) > width] == []
