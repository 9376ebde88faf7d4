"""The matrix of which rank waited for which, with a cursor whose cell is explained in words."""

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import BindingType
from textual.content import Content
from textual.events import Click

from ddptui.analysis.results import TrialResult
from ddptui.analysis.wait_matrix import WaitMatrix, wait_matrix
from ddptui.report.matrix import ITSELF, MOST_ROWS, Grid, describe, grid, largest
from ddptui.text.drawing import Line, Span
from ddptui.text.units import NOTHING
from ddptui.tui.keys import moves
from ddptui.tui.widgets.canvas import Canvas

ROOM_FOR_LABELS = 12  # cells, enough for two numbers of four digits


class WhoWaits(Canvas, can_focus=True):
    """Draws waiting ranks as rows and late ranks as columns; many ranks are grouped into blocks."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"canvas--cursor"}
    DEFAULT_CSS = """
    WhoWaits > .canvas--cursor { background: $block-cursor-blurred-background; color: $text; }
    WhoWaits:focus > .canvas--cursor { color: $block-cursor-foreground; background: $block-cursor-background; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *moves("up", "move(-1, 0)", "Rank above"),
        *moves("down", "move(1, 0)", "Rank below"),
        *moves("left", "move(0, -1)", "Rank on the left"),
        *moves("right", "move(0, 1)", "Rank on the right"),
    ]
    _trial: TrialResult | None = None
    _matrix: WaitMatrix | None = None  # the visible matrix; None: waits are unknown, or the widget has no size yet
    _cursor = (0, 0)  # row, column
    _whole: WaitMatrix | None = None  # the matrix with all rows

    def show(self, trial: TrialResult | None) -> None:
        """Show the waits of a trial's ranks, with the cursor on the longest wait."""
        if trial is not self._trial:
            self._trial, self._matrix = trial, None
            self._whole = wait_matrix(trial, MOST_ROWS) if trial else None
            self._lay_out()

    @property
    def wanted_lines(self) -> int:
        """The lines that the matrix takes; 0: there is none."""
        width = self.size.width or self.screen.size.width  # a hidden pane has no width
        return len(grid(self._whole, width).lines) if self._whole else 0

    def on_resize(self) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        matrix = self._fitted(*self.size) if self.size.height else None
        if matrix is not None and matrix != self._matrix:
            self._cursor = largest(matrix)
        self._matrix = matrix
        self._show_cell()

    def _fitted(self, width: int, height: int) -> WaitMatrix | None:
        """The matrix with as many rows as fit below its header lines, of which blocks need more than ranks."""
        matrix = self._whole
        for rows in (height - 1, height - 2):
            if self._trial and matrix and len(grid(matrix, width).lines) > height:
                matrix = wait_matrix(self._trial, max(1, min(MOST_ROWS, rows, width - ROOM_FOR_LABELS)))
        return matrix

    def _show_cell(self) -> None:
        self.border_subtitle = Content(describe(self._matrix, *self._cursor) if self._matrix else "")
        self.redraw()

    def _choose(self, row: int, column: int) -> None:
        if self._matrix and 0 <= row < len(self._matrix.ranks) and 0 <= column < len(self._matrix.ranks):
            self._cursor = row, column
            self._show_cell()

    def action_move(self, rows: int, columns: int) -> None:
        row, column = self._cursor
        self._choose(row + rows, column + columns)

    def on_click(self, event: Click) -> None:
        """Choose the clicked cell."""
        at = event.get_content_offset(self)
        if at is not None and self._matrix:
            shown = grid(self._matrix, self.size.width)
            self._choose(at.y - len(shown.heads), (at.x - len(shown.labels[0])) // len(shown.cells[0][0]))

    def draw(self, width: int, height: int) -> Sequence[Line]:
        if self._matrix is None:
            return []
        shown = grid(self._matrix, width)
        return [
            *([(head, "muted")] for head in shown.heads),
            *(self._line(shown, row) for row in range(len(shown.labels))),
        ]

    def _line(self, shown: Grid, row: int) -> Line:
        line: list[Span] = [(shown.labels[row], "")]
        for column, text in enumerate(shown.cells[row]):
            usual = "muted" if text.strip() in (ITSELF, NOTHING) else "wait"
            kind = "cursor" if (row, column) == self._cursor else usual
            line += [(text[: shown.gap], ""), (text[shown.gap :], kind)]
        return line
