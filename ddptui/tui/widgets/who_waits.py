"""The matrix of which rank waited for which, with a cursor whose cell is explained in words."""

from typing import ClassVar

from rich.text import Text
from textual.binding import BindingType
from textual.content import Content
from textual.widgets import DataTable

from ddptui.analysis.breakdown import WaitMatrix, wait_matrix
from ddptui.analysis.results import TrialResult
from ddptui.report.matrix import ITSELF, MOST_ROWS, describe, largest, span, with_numbers
from ddptui.text.words import NOTHING
from ddptui.tui.keys import bound
from ddptui.tui.widgets.lists import ROW_KEYS


class WhoWaits(DataTable[Text]):
    """Shows waiting ranks as rows and late ranks as columns; many ranks are grouped into blocks."""

    DEFAULT_CSS = "WhoWaits, WhoWaits:focus { background: $background; background-tint: transparent; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        *ROW_KEYS,
        bound("left", "cursor_left", "Rank on the left", show=False),
        bound("right", "cursor_right", "Rank on the right", show=False),
    ]
    _trial: TrialResult | None = None
    _matrix: WaitMatrix | None = None  # None: waits are unknown

    def __init__(self, *, id: str, classes: str) -> None:
        super().__init__(id=id, classes=classes, fixed_columns=1)

    def show(self, trial: TrialResult | None) -> None:
        """Show the waits of a trial's ranks, with the cursor on the longest wait."""
        if trial is self._trial:
            return
        self._trial, self._matrix = trial, wait_matrix(trial, MOST_ROWS) if trial else None
        self.clear(columns=True)
        if self._matrix:
            shown = with_numbers(self._matrix)
            corner = shown.heads[-1][: len(shown.labels[0])]
            self.add_columns(corner, *(Text(f"for {span(ranks)}", justify="right") for ranks in self._matrix.ranks))
            for label, row in zip(shown.labels, shown.cells, strict=True):
                texts = (cell.strip() for cell in row)
                looks = ((text, "dim" if text in (ITSELF, NOTHING) else "") for text in texts)
                self.add_row(Text(label), *(Text(text, look, justify="right") for text, look in looks))
            waiting, late = largest(self._matrix)
            self.move_cursor(row=waiting, column=late + 1)

    @property
    def wanted_lines(self) -> int:
        """The lines of the matrix with its header; 0: there is none."""
        return self.row_count + bool(self.row_count)

    def on_data_table_cell_highlighted(self, event: DataTable.CellHighlighted) -> None:
        """Explain the cell under the cursor."""
        row, column = event.coordinate
        words = describe(self._matrix, row, column - 1) if self._matrix and column else ""
        self.border_subtitle = Content(words)
