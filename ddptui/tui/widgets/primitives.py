"""The list of a trial's primitives, and the grid of every rank's buffers before and after a call."""

from collections.abc import Collection, Sequence
from typing import ClassVar, NamedTuple

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets.option_list import Option

from ddptui.analysis.primitives.cells import PrimitiveKey, by_operation
from ddptui.analysis.primitives.results import PrimitivesResult, View
from ddptui.report.primitives.buffers import RANK_KINDS, page_lines, view_title
from ddptui.text.drawing import Line
from ddptui.tui.widgets.canvas import Canvas
from ddptui.tui.widgets.lists import SCROLL_KEYS, Chooser

MARKS = {True: "• ", False: "  ", None: " "}
FAULT = " !"
BORDER = 3  # cells of the border and a scrollbar
WIDEST = 32  # longer lines are cut off


class Item(NamedTuple):
    """One primitive in the list."""

    name: str
    primitive: View | PrimitiveKey  # a shown or a measured primitive
    marked: bool | None = None  # whether it is kept in the plot; None: there is no plot
    is_wrong: bool = False  # the backend failed, or gave wrong values

    @property
    def line(self) -> Content:
        """The line in the list."""
        fault = FAULT if self.is_wrong else ""
        return Content.assemble((MARKS[self.marked], "$text-accent"), self.name, (fault, "$text-error"))


def items_of(result: PrimitivesResult | None, marked: Collection[PrimitiveKey]) -> list[Item]:
    """Return the lines of a trial: first the primitives whose buffers are shown, then the measured ones."""
    if result is None:
        return []
    views = [Item(view_title(view), view, is_wrong=view.error is not None) for view in result.views]
    groups = by_operation(result.cells).items()
    return views + [
        Item(str(key), key, key in marked, any(cell.wrong or cell.error for cell in cells)) for key, cells in groups
    ]


class PrimitiveList(Chooser):
    """Shows a line for each primitive."""

    BORDER_TITLE = "Primitives"
    _items: Sequence[Item] = ()

    @property
    def primitive(self) -> View | PrimitiveKey | None:
        """The primitive under the cursor."""
        return next((item.primitive for item in self._items if item.name == self.chosen), None)

    def show(self, items: Sequence[Item]) -> None:
        """Show these items. The cursor stays on its item."""
        if items == self._items:
            return
        self._items = items
        self.styles.width = BORDER + min(WIDEST, max((item.line.cell_length for item in items), default=0))
        self.refill([Option(item.line, item.name) for item in items])

    def step(self, by: int) -> bool:
        """Move the cursor by this number of items. Return whether there is such an item."""
        place = (self.highlighted or 0) + by
        if not 0 <= place < self.option_count:
            return False
        self.highlighted = place
        return True


NOTHING_YET = "nothing to show yet: the ranks have not called it"


class Page(Canvas):
    """Draws each number in the color of its rank; reduced values are bold, undefined ones struck through."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"canvas--{kind}" for kind in (*RANK_KINDS, "reduced", "undefined", "wrong")
    }
    DEFAULT_CSS = """
    Page > .canvas--rank-0, Page > .canvas--rank-4 { color: $text-primary; }
    Page > .canvas--rank-1, Page > .canvas--rank-5 { color: $text-warning; }
    Page > .canvas--rank-2, Page > .canvas--rank-6 { color: $text-success; }
    Page > .canvas--rank-3, Page > .canvas--rank-7 { color: $text-error; }
    /* Only four colors are easy to tell apart: ranks 4 to 7 use them underlined. */
    Page > .canvas--rank-4, Page > .canvas--rank-5, Page > .canvas--rank-6, Page > .canvas--rank-7 {
        text-style: underline;
    }
    Page > .canvas--reduced { color: $text; background: $primary-muted; text-style: bold; }
    Page > .canvas--undefined { color: $text-muted; text-style: strike; }
    Page > .canvas--wrong { color: $text-error; text-style: bold; }
    """
    _lines: Sequence[Line] = ()

    def show(self, lines: Sequence[Line]) -> None:
        """Show these lines."""
        self._lines = lines
        self.styles.height = max(1, len(lines))
        self.redraw()

    def draw(self, width: int, height: int) -> Sequence[Line]:
        return self._lines


class PrimitiveGrid(VerticalScroll):
    """Shows one primitive: every rank's call and buffers, before or after the call. Scrolls if there is no room."""

    BINDINGS: ClassVar[list[BindingType]] = SCROLL_KEYS
    DEFAULT_CSS = "PrimitiveGrid { scrollbar-size-vertical: 1; }"
    _shown: tuple[View | None, bool, str] | None = None

    def compose(self) -> ComposeResult:
        yield Page()

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
        self._lay_out()

    def on_resize(self, event: events.Resize) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        view, after, _ = self._shown or (None, False, "")
        width, room = self.content_size
        if view is None:
            lines: Sequence[Line] = [[(NOTHING_YET, "muted")]]
        elif len(lines := page_lines(view, width, after=after)) > room:
            lines = page_lines(view, width - 1, after=after)  # the scrollbar takes a column
        self.query_one(Page).show(lines)
