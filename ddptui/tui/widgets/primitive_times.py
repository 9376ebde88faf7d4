"""A measured primitive: a table of its sizes, the fitted model, and a plot of both."""

import textwrap
from collections.abc import Sequence
from typing import ClassVar

import msgspec
from rich.style import Style
from textual.app import ComposeResult
from textual.containers import Vertical

from ddptui.analysis.primitives.cells import PrimitiveKey, by_operation, is_uneven
from ddptui.analysis.primitives.fit import Fit, fit_all, network_of
from ddptui.analysis.primitives.results import PrimitivesResult
from ddptui.analysis.primitives.theory import Network, theory
from ddptui.report.primitives import tables
from ddptui.report.primitives.plot import TITLES, What, draw
from ddptui.text.drawing import Line, wrap
from ddptui.text.tables import Table, fit, telling
from ddptui.tui.widgets.canvas import Canvas
from ddptui.tui.widgets.tables import FittedTable

NETWORK_OPERATIONS = ("isend_irecv", "send_recv", "local_sum")  # the textbook's figures derive from their times
SHOWN_ELSEWHERE = ("operation", "left out", tables.ALGORITHM, "textbook formula")  # columns of the table of models
UNEVEN = f"{tables.MARK} its calls differ much among each other"


class SizeTable(FittedTable):
    """Shows a row per size, with as many columns as fit. Rows with wrong elements stand out."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"sizes--wrong"}
    DEFAULT_CSS = "SizeTable > .sizes--wrong { color: $text-error; text-style: bold; }"
    _table: Table = Table(())

    def show(self, table: Table) -> None:
        """Show the rows of a table."""
        self._table = table
        self.refill()

    def refill(self) -> None:
        columns = fit(telling(self._table.columns), self.scrollable_content_region.width - 2)
        names = [str(number) for number in range(len(columns[0].cells) if columns else 0)]
        wrong: Style = self.get_component_rich_style("sizes--wrong", partial=True)
        self.fill(columns, names, {str(number): wrong for number in self._table.styles})


class SizePlot(Canvas):
    """Draws time or bus bandwidth over size."""

    DEFAULT_CSS = """
    SizePlot > .canvas--series-3 { color: $text-error; }
    SizePlot > .canvas--series-4 { color: $text-accent; }
    """
    _result: PrimitivesResult | None = None
    _operations: Sequence[PrimitiveKey] = ()
    _what: What = "time"

    def show(self, result: PrimitivesResult, operations: Sequence[PrimitiveKey], what: What) -> None:
        """Draw these operations, measured and fitted."""
        self._result, self._operations, self._what = result, operations, what
        self.border_title = f"{TITLES[what]} over size, both logarithmic"
        self.redraw()

    def draw(self, width: int, height: int) -> Sequence[Line]:
        return draw(self._result, self._operations, width, height, self._what) if self._result else []


class Model(Canvas):
    """Shows the fitted model, or why there is nothing to fit to."""

    _parts: Sequence[str] = ()
    _refusal = ""

    def show(self, parts: Sequence[str], refusal: str) -> None:
        """Show the model in parts, or the backend's refusal."""
        self._parts, self._refusal = parts, refusal
        self.redraw()

    def draw(self, width: int, height: int) -> Sequence[Line]:
        if self._refusal:
            return [[(line, "culprit")] for line in textwrap.wrap(f"The backend cannot: {self._refusal}", width)]
        return wrap([[(part, "muted")] for part in self._parts], width, height)


class PrimitiveTimes(Vertical):
    """Shows table, plot and model of the chosen primitive."""

    _shown: tuple[object, ...] = ()

    def compose(self) -> ComposeResult:
        yield SizeTable(id="sizes", classes="pane")
        yield Model(id="model")
        yield SizePlot(id="plot", classes="pane")

    def show(
        self,
        result: PrimitivesResult,
        chosen: PrimitiveKey,
        marked: Sequence[PrimitiveKey],
        what: What,
    ) -> None:
        """Show the chosen primitive; the plot also has the marked ones. Does nothing if all is unchanged."""
        shown = (id(result), chosen, tuple(marked), what)
        if shown == self._shown:
            return
        self._shown = shown
        drawn = [chosen, *(key for key in marked if key != chosen)]
        needed = [  # fitting a model to all others, too, would take time
            cell
            for key, cells in by_operation(result.cells).items()
            if key in drawn or (key.operation in NETWORK_OPERATIONS and not key.composite)
            for cell in cells
        ]
        result = msgspec.structs.replace(result, cells=needed)
        cells, models = by_operation(needed)[chosen], fit_all(result)
        model = next((model for model in models if model.key == chosen), None)
        network = network_of(models, result.cadence)
        table = self.query_one(SizeTable)
        table.show(tables.of_cells(cells, model, network))
        table.border_title = tables.heading(chosen, result.cadence)
        table.border_subtitle = UNEVEN if any(map(is_uneven, cells)) else ""
        refusal = next((cell.error for cell in cells if cell.error), None)
        self.query_one(Model).show(in_words(model, network) if model else (), refusal or "")
        self.query_one(SizePlot).show(result, drawn, what)


def in_words(model: Fit, network: tuple[Network, PrimitiveKey] | None) -> list[str]:
    """Return the textbook's formula, term by term, then the fitted figures."""
    book = theory(model.key.operation, composite=model.key.composite)
    columns = telling(tables.of_models([model], network).columns)
    figures = [f"{column.header} {column.cells[0]}" for column in columns if column.header not in SHOWN_ELSEWHERE]
    first, *terms = book.formula.split(" + ")
    return [f"{book.algorithm}: {first}", *(f"+ {term}" for term in terms), *figures]
