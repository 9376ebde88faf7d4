"""A line of a list: a name on the left, a note on the right, and a text between where there is room."""

from textual.content import Content
from textual.css.styles import RulesMap
from textual.strip import Strip
from textual.style import Style
from textual.visual import RenderOptions, Visual

LEAST = 24  # columns in which more than the beginning of a title can be read
NOTHING = Content()


class TwoEnds(Visual):
    """One line. The text `between` starts in the column `begins`, so that the lines of a list align."""

    def __init__(self, left: Content, right: Content, between: Content = NOTHING, begins: int = 0) -> None:
        self._left, self._right, self._between, self._begins = left, right, between, begins

    def render_strips(self, width: int, height: int | None, style: Style, options: RenderOptions) -> list[Strip]:
        room = max(0, width - self._right.cell_length - 1)
        line = Content.assemble(self._words(room).truncate(room, ellipsis=True, pad=True), " ", self._right)
        return line.truncate(max(width, 1)).render_strips(width, 1, style, options)

    def _words(self, room: int) -> Content:
        begins = max(self._begins, self._left.cell_length + 1)
        if not self._between or room < begins + LEAST:
            return self._left
        return Content.assemble(self._left.truncate(begins, pad=True), self._between)

    def get_optimal_width(self, rules: RulesMap, container_width: int) -> int:
        return container_width

    def get_height(self, rules: RulesMap, width: int) -> int:
        return 1
