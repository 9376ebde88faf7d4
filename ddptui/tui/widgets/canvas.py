"""The base of all drawings: converts lines of text to strips, and caches them until something changes."""

from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Size
from textual.strip import Strip
from textual.widget import Widget

from ddptui.text.drawing import SERIES, Line

_COLORS = ("primary", "warning", "success", "accent", "error", "secondary")
SERIES_COLORS = {kind: f"$text-{color}" for kind, color in zip(SERIES, _COLORS, strict=True)}
KINDS = (*SERIES, "work", "arrival", "wait", "transfer", "rest", "delay", "unknown", "culprit", "muted", "strong")


class Canvas(Widget):
    """A widget that draws lines. Each kind of span has the same color in all drawings, by its class `canvas--KIND`.
    Subclasses may add kinds."""

    ALLOW_SELECT = False  # drawings are not text to copy
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
    """ + "".join(f"Canvas > .canvas--{kind} {{ color: {color}; }}\n" for kind, color in SERIES_COLORS.items())
    _drawn: tuple[Size, list[Strip]] | None = None
    _styles_by_kind: dict[str, Style]  # set by `notify_style_update`, which Textual calls before the first drawing

    def draw(self, width: int, height: int) -> Sequence[Line]:
        """Return the lines; called only while the widget is visible. Lines that do not fit are cut off."""
        raise NotImplementedError

    def redraw(self) -> None:
        """Draw again when the widget is next rendered."""
        self._drawn = None
        self.refresh()

    def notify_style_update(self) -> None:
        self._drawn = None  # a new theme has new colors
        self._styles_by_kind = {}
        super().notify_style_update()

    def render_line(self, y: int) -> Strip:
        width, height = self.size
        if self._drawn is None or self._drawn[0] != self.size:
            lines = self.draw(width, height)[:height] if width > 0 and height > 0 else []
            strips = (Strip([Segment(text, self._style(kind)) for text, kind in line]) for line in lines)
            self._drawn = self.size, [strip.adjust_cell_length(width, self._style("")) for strip in strips]
        drawn = self._drawn[1]
        return drawn[y] if y < len(drawn) else Strip.blank(width, self._style(""))

    def _style(self, kind: str) -> Style:
        if kind not in self._styles_by_kind:  # cached, since there may be thousands of spans per second
            self._styles_by_kind[kind] = self.get_visual_style(*([f"canvas--{kind}"] if kind else [])).rich_style
        return self._styles_by_kind[kind]
