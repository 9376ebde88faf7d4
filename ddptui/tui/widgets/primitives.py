"""The primitives of a trial: a list to choose one from, and every rank's buffers before and after its call."""

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
from ddptui.report.primitives.ownership import RANK_KINDS, page_lines, view_title
from ddptui.text.drawing import Line
from ddptui.tui.widgets.canvas import Canvas
from ddptui.tui.widgets.lists import SCROLL_KEYS, Chooser

MARKS = {True: "• ", False: "  ", None: " "}
FAULT = " !"
BORDER = 3  # and a scrollbar
WIDEST = 32  # more is cut off


class Item(NamedTuple):
    """One line. `marked`: it stays in the plot (None: there is no plot). `is_wrong`: the backend failed or is wrong."""

    name: str
    marked: bool | None = None
    is_wrong: bool = False


def items_of(result: PrimitivesResult | None, marked: Collection[PrimitiveKey]) -> list[Item]:
    """Return the lines of a trial, views first: those whose buffers are shown, then those that are measured."""
    if result is None:
        return []
    views = [Item(view_title(view), is_wrong=view.error is not None) for view in result.views]
    groups = by_operation(result.cells).items()
    return views + [
        Item(str(which), which in marked, any(cell.wrong or cell.error for cell in cells)) for which, cells in groups
    ]


class PrimitiveList(Chooser):
    """Shows a line for each primitive."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id, classes="pane")
        self.border_title = "Primitives"
        self._items: Sequence[Item] = ()

    def show(self, items: Sequence[Item]) -> None:
        """Show these items. The cursor stays on the item that it was on."""
        if items == self._items:
            return
        self._items = items
        self.styles.width = BORDER + min(WIDEST, max((_line(item).cell_length for item in items), default=0))
        self.refill([Option(_line(item), item.name) for item in items])

    def choose(self, name: str | None) -> None:
        """Put the cursor on an item; on the first, where none has this name."""
        names = [item.name for item in self._items]
        self.highlighted = names.index(name) if name in names else 0 if names else None

    def step(self, by: int) -> bool:
        """Move the cursor by so many items. Return whether there is one."""
        place = (self.highlighted or 0) + by
        if not 0 <= place < self.option_count:
            return False
        self.highlighted = place
        return True


def _line(item: Item) -> Content:
    return Content.assemble(
        (MARKS[item.marked], "$text-accent"), item.name, (FAULT if item.is_wrong else "", "$text-error")
    )


NOTHING_YET = "nothing to be seen yet: the ranks have not come to it"


class Page(Canvas):
    """Draws each number in the color of its rank. There are four colors; ranks 4 to 7 have them underlined.

    Reduced numbers are bold on a background of their own, and undefined ones are struck through.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"canvas--{kind}" for kind in (*RANK_KINDS, "reduced", "undefined", "wrong")
    }
    DEFAULT_CSS = """
    Page > .canvas--rank-0, Page > .canvas--rank-4 { color: $text-primary; }
    Page > .canvas--rank-1, Page > .canvas--rank-5 { color: $text-warning; }
    Page > .canvas--rank-2, Page > .canvas--rank-6 { color: $text-success; }
    Page > .canvas--rank-3, Page > .canvas--rank-7 { color: $text-error; }
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
    """Shows one primitive: every rank's call and buffers, before or after it. It scrolls where ranks lack room."""

    BINDINGS: ClassVar[list[BindingType]] = SCROLL_KEYS
    DEFAULT_CSS = """
    PrimitiveGrid { scrollbar-size-vertical: 1; }
    """

    _shown: tuple[View | None, bool, str] | None = None

    def compose(self) -> ComposeResult:
        yield Page()

    def show(self, view: View | None, *, after: bool, note: str = "") -> None:
        """Show a primitive before or after its call. `note` stands at the bottom. Does nothing if all is unchanged."""
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
        """Draw the lines anew. If they do not fit, a scrollbar takes a column."""
        view, after, _ = self._shown or (None, False, "")
        width, room = self.content_size
        if view is None:
            lines: Sequence[Line] = [[(NOTHING_YET, "muted")]]
        elif len(lines := page_lines(view, width, room, after=after)) > room:
            lines = page_lines(view, width - 1, room, after=after)
        self.query_one(Page).show(lines)
