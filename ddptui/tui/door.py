"""The door of the screens: no text from outside steers the terminal on which they are drawn."""

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter


class Door(LineFilter):
    """Draws blanks, or nothing, for characters that are not printable."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the segments of a line, as wide as they were."""
        return [
            segment if segment.text.isprintable() else segment._replace(text=without_control(segment.text))
            for segment in segments
        ]


def without_control(text: str) -> str:
    """Return the text with blanks for what is not printable, in as many cells. (Parts of an emoji may take more.)"""
    blanked = "".join(char if char.isprintable() else " " * cell_len(char) for char in text)
    return set_cell_size(blanked, cell_len(text))
