"""The base of all drawings: converts lines of text to strips, and caches them until something changes."""

from collections.abc import Sequence

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Size
from textual.strip import Strip
from textual.style import Style as VisualStyle
from textual.widget import Widget

from ddptui.text.drawing import SERIES, Line

# The kinds of spans by style. Each kind looks the same in all drawings.
STYLES = {
    kind: style
    for style, kinds in {
        "$text-primary": ["work", "arrival", "forward", SERIES[0], "rank-0"],
        "$text-warning": ["wait", SERIES[1], "rank-1"],
        "$text-success": ["transfer", SERIES[2], "rank-2"],
        "$text-error": ["delay", SERIES[3], "rank-3"],
        "$text-accent": ["optimizer", SERIES[4]],
        "$text-secondary": ["backward", SERIES[5]],
        "$text-primary bold": ["mean"],
        "$text-error bold": ["culprit", "wrong"],
        "bold": ["strong"],
        "$foreground 70%": ["rest", "unknown", "muted", "data", "rank"],
        "$foreground 70% strike": ["undefined"],
        "on $primary-muted bold": ["reduced"],
        "": ["", "aggregate"],
    }.items()
    for kind in kinds
}
# Only four colors are easy to tell apart: ranks 4 to 7 use them underlined.
STYLES |= {f"rank-{number + 4}": f"{STYLES[f'rank-{number}']} underline" for number in range(4)}


class Canvas(Widget):
    """A widget that draws lines."""

    ALLOW_SELECT = False  # drawings are not text to copy
    DEFAULT_CSS = "Canvas { height: 1fr; }"
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
            self._styles_by_kind[kind] = (self.visual_style + VisualStyle.parse(STYLES[kind])).rich_style
        return self._styles_by_kind[kind]
