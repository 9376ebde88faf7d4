"""The times of a measured primitive: a table by size, and a plot."""

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from ddptui.analysis.primitive_results import PrimitiveKey, PrimitivesResult, by_operation, is_uneven
from ddptui.report import primitive_tables
from ddptui.report.blocks import TITLES, What, draw
from ddptui.text.drawing import Line
from ddptui.text.tables import telling
from ddptui.tui.widgets.canvas import Canvas
from ddptui.tui.widgets.tables import LabTable, RowMark

UNEVEN = f"{primitive_tables.MARK} its calls differ much among each other"


class SizePlot(Canvas):
    """Plots time or bus bandwidth over size."""

    _result: PrimitivesResult | None = None
    _operations: Sequence[PrimitiveKey] = ()
    _what: What = "time"

    def show(self, result: PrimitivesResult, operations: Sequence[PrimitiveKey], what: What) -> None:
        """Plot these operations."""
        self._result, self._operations, self._what = result, operations, what
        self.border_title = f"{TITLES[what]} over size, both logarithmic"
        self.redraw()

    def draw(self, width: int, height: int) -> Sequence[Line]:
        return draw(self._result, self._operations, width, height, self._what) if self._result else []


class PrimitiveTimes(Vertical):
    """Shows table and plot of the chosen primitive, or why the backend does not support it."""

    _shown: tuple[object, ...] = ()

    def compose(self) -> ComposeResult:
        yield LabTable(id="sizes", classes="pane")
        yield Static(id="refusal", markup=False)
        yield SizePlot(id="plot", classes="pane")

    def show(self, result: PrimitivesResult, chosen: PrimitiveKey, marked: Sequence[PrimitiveKey], what: What) -> None:
        """Show the chosen primitive; the plot also has the marked ones. Does nothing if nothing has changed."""
        shown = (id(result), chosen, tuple(marked), what)
        if shown == self._shown:
            return
        self._shown = shown
        drawn = [chosen, *(key for key in marked if key != chosen)]
        cells = by_operation(result.cells)[chosen]
        table, sizes = self.query_one(LabTable), primitive_tables.of_cells(cells)
        table.border_title = primitive_tables.size_heading(chosen, result.cadence)
        rows = [str(number) for number, _ in enumerate(sizes.columns[0].cells)]
        marks: dict[str, RowMark] = {str(number): "problem" for number in sizes.styles}  # wrong elements
        said = Content(UNEVEN if any(map(is_uneven, cells)) else "")
        table.fill(telling(sizes.columns), rows, marks, said)
        refusal = next((f"The backend cannot: {cell.error}" for cell in cells if cell.error), "")
        line = self.query_one("#refusal", Static)
        line.display = bool(refusal)
        line.update(Content(refusal))
        self.query_one(SizePlot).show(result, drawn, what)
