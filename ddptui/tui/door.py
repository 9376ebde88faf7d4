"""The door of the screens: no text from outside steers the terminal on which they are drawn."""

from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter


class Door(LineFilter):
    """Draws a blank, or nothing where it has no width, for each character that is not printable."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the segments of a line, as wide as they were."""
        return [
            segment if segment.text.isprintable() else segment._replace(text=_blanked(segment.text))
            for segment in segments
        ]


def _blanked(text: str) -> str:
    return "".join(char if char.isprintable() else " " * cell_len(char) for char in text)
