"""Sanitizes all text that the screens draw, so that text from outside cannot control the terminal."""

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter


class Door(LineFilter):
    """A line filter that replaces characters that are not printable with blanks, or removes them."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the sanitized segments of a line, with unchanged widths."""
        return [
            segment if segment.text.isprintable() else segment._replace(text=without_control(segment.text))
            for segment in segments
        ]


def without_control(text: str) -> str:
    """Return the text with blanks in place of unprintable characters, in the same number of cells. (Parts of an emoji
    may take more.)"""
    blanked = "".join(char if char.isprintable() else " " * cell_len(char) for char in text)
    return set_cell_size(blanked, cell_len(text))
