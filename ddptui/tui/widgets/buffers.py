"""A trial's primitives: their list, every rank's buffers before and after a call, and their times."""

from collections.abc import Collection, Mapping, Sequence

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static
from textual.widgets.option_list import Option

from ddptui.analysis.primitive_results import PrimitiveKey, PrimitivesResult, View, by_operation, is_uneven
from ddptui.report import primitive_tables
from ddptui.report.blocks import TITLES, What, draw
from ddptui.report.primitive_tables import page_lines, view_title
from ddptui.text.drawing import Line
from ddptui.text.tables import telling
from ddptui.tui.widgets.charts import STYLES, Canvas
from ddptui.tui.widgets.frame import Fitted
from ddptui.tui.widgets.lists import Chooser
from ddptui.tui.widgets.tables import LabTable, RowMark
from ddptui.tui.widgets.texts import TextPane


class PrimitiveList(Chooser):
    """Shows a line for each primitive of a trial: first those whose buffers are shown, then the measured ones."""

    BORDER_TITLE = "Primitives"
    DEFAULT_CSS = "PrimitiveList { width: auto; max-width: 35; }"
    _primitives: Mapping[str, View | PrimitiveKey] = {}  # by what identifies their line
    _items: Sequence[tuple[str, str, str]] = ()

    @property
    def primitive(self) -> View | PrimitiveKey | None:
        """The primitive under the cursor."""
        return self._primitives.get(self.chosen or "")

    def show(self, result: PrimitivesResult | None, marked: Collection[PrimitiveKey]) -> None:
        """Show the primitives of a result. The cursor stays on its line. `marked`: those that are kept in the plot."""
        views, groups = (result.views, by_operation(result.cells)) if result else ((), {})
        is_wrong = {key: any(cell.wrong or cell.error for cell in cells) for key, cells in groups.items()}
        lines = [(" ", view_title(view), " !" * (view.error is not None)) for view in views]
        lines += [("• " if key in marked else "  ", str(key), " !" * is_wrong[key]) for key in groups]
        self._primitives = dict(zip((name for _, name, _ in lines), (*views, *groups), strict=True))
        if lines != self._items:
            self._items = lines
            texts = (
                Content.assemble((mark, "$text-accent"), name, (fault, "$text-error")) for mark, name, fault in lines
            )
            self.refill([Option(text, name) for text, name in zip(texts, self._primitives, strict=True)])

    def step(self, by: int) -> bool:
        """Move the cursor by this number of items. Return whether there is such an item."""
        place = (self.highlighted or 0) + by
        if not 0 <= place < self.option_count:
            return False
        self.highlighted = place
        return True


NOTHING_YET = "nothing to show yet: the ranks have not called it"


class PrimitiveGrid(TextPane, Fitted):
    """Shows one primitive: every rank's call and buffers, before or after the call, each number in the color of its
    rank; reduced values are bold, undefined ones struck through."""

    DEFAULT_CSS = "PrimitiveGrid { scrollbar-size-vertical: 1; scrollbar-gutter: stable; }"
    _shown: tuple[View | None, bool, str] | None = None

    def show(self, view: View | None, *, after: bool, note: str = "") -> None:
        """Show a primitive before or after its call. `note`: text at the bottom. Does nothing if nothing has
        changed."""
        if (view, after, note) == self._shown:
            return
        if self._shown and view is not self._shown[0]:
            self.scroll_home(animate=False)
        self._shown = view, after, note
        self.border_title = view_title(view) if view else "Nothing yet"
        moment = "" if view is None or view.error else "after the call" if after else "before the call"
        self.border_subtitle = " · ".join(filter(None, (moment, note)))
        self.fit()

    def lay_out(self, width: int) -> None:
        view, after, _ = self._shown or (None, False, "")
        lines = page_lines(view, width, after=after) if view else [[(NOTHING_YET, "muted")]]
        shown = (Content.assemble(*((text, STYLES[kind]) for text, kind in line)) for line in lines)
        self.query_one(Static).update(Content("\n").join(shown))


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


class Sizes(LabTable):
    """A row for each size."""

    what = "sizes"


class PrimitiveTimes(Vertical):
    """Shows table and plot of the chosen primitive, or why the backend does not support it."""

    _shown: tuple[object, ...] = ()

    def compose(self) -> ComposeResult:
        yield Sizes(id="sizes", classes="pane")
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
