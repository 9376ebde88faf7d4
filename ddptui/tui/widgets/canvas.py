"""The base of the drawings: turns lines of text into strips, and keeps them until something changes."""

from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Size
from textual.strip import Strip
from textual.widget import Widget

from ddptui.text.drawing import Line
from ddptui.text.words import printable

KINDS = ("work", "arrival", "wait", "transfer", "rest", "delay", "unknown", "culprit", "muted", "strong")


class Canvas(Widget):
    """A subclass implements `draw`, called only while the widget shows. A span's kind has one color in all drawings,
    that of the class `canvas--KIND` below. A subclass may add kinds in the same way."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {f"canvas--{kind}" for kind in KINDS}
    DEFAULT_CSS = """
    Canvas { height: 1fr; }
    Canvas > .canvas--work, Canvas > .canvas--arrival { color: $text-primary; }
    Canvas > .canvas--wait { color: $text-warning; }
    Canvas > .canvas--transfer { color: $text-success; }
    Canvas > .canvas--rest, Canvas > .canvas--unknown { color: $text-muted; }
    Canvas > .canvas--delay { color: $text-error; }
    Canvas > .canvas--culprit { color: $text-error; text-style: bold; }
    Canvas > .canvas--muted { color: $text-muted; }
    Canvas > .canvas--strong { color: $text; text-style: bold; }
    """

    _drawn: tuple[Size, list[Strip]] | None = None

    def __init__(self, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._styles_by_kind: dict[str, Style] = {}

    def draw(self, width: int, height: int) -> Sequence[Line]:
        """Return the lines. What does not fit is cut off."""
        raise NotImplementedError

    def redraw(self) -> None:
        """Draw anew when the widget is next rendered."""
        self._drawn = None
        self.refresh()

    def notify_style_update(self) -> None:
        """Forget what was drawn: a new theme has new colors."""
        self._drawn = None
        self._styles_by_kind = {}
        super().notify_style_update()

    def render_line(self, y: int) -> Strip:
        if self._drawn is None or self._drawn[0] != self.size:
            self._drawn = (self.size, self._strips(*self.size))
        strips = self._drawn[1]
        return strips[y] if y < len(strips) else Strip.blank(self.size.width, self._style(""))

    def _strips(self, width: int, height: int) -> list[Strip]:
        lines = self.draw(width, height)[:height] if width > 0 and height > 0 else []
        return [self._strip(line).adjust_cell_length(width, self._style("")) for line in lines]

    def _strip(self, line: Line) -> Strip:
        return Strip([Segment(_safe(text), self._style(kind)) for text, kind in line])

    def _style(self, kind: str) -> Style:
        """Return the style of a kind. Cached until the theme changes: there may be thousands of spans a second."""
        if kind not in self._styles_by_kind:
            self._styles_by_kind[kind] = self.get_visual_style(*([f"canvas--{kind}"] if kind else [])).rich_style
        return self._styles_by_kind[kind]


def _safe(text: str) -> str:
    """Replace control characters, which a terminal would obey. Nearly all texts have none."""
    return text if text.isprintable() else printable(text)
