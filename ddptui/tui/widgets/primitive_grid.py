"""One primitive: every rank's call and buffers, before and after, each number in the color of its rank."""

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll

from ddptui.analysis.primitives.results import View
from ddptui.report.primitives.ownership import RANK_KINDS, page_lines, view_title
from ddptui.text.drawing import Line
from ddptui.tui.widgets.canvas import Canvas
from ddptui.tui.widgets.keys import SCROLL_KEYS

NOTHING_YET = "nothing to be seen yet: the ranks have not come to it"


class Page(Canvas):
    """Four colors; the next four ranks have them underlined. Reduced numbers stand out by more than a color, and
    undefined ones are struck through."""

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
    """Shows the ranks that have room; the user scrolls to the others."""

    BINDINGS: ClassVar[list[BindingType]] = [*SCROLL_KEYS]
    DEFAULT_CSS = """
    PrimitiveGrid { scrollbar-size-vertical: 1; }
    """

    _view: View | None = None
    _after = False
    _shown: tuple[View | None, bool, str] | None = None

    def compose(self) -> ComposeResult:
        yield Page()

    def show(self, view: View | None, *, after: bool, note: str = "") -> None:
        """note: what else there is to say of it. Nothing happens while all is as it was."""
        if (view, after, note) == self._shown:
            return
        if view is not self._view:
            self.scroll_home(animate=False)
        self._view, self._after, self._shown = view, after, (view, after, note)
        self.border_title = view_title(view) if view else "Nothing yet"
        moment = "" if view is None or view.error else "after the call" if after else "before the call"
        self.border_subtitle = " · ".join(filter(None, (moment, note)))
        self._lay_out()

    def on_resize(self, event: events.Resize) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        """Where there are more lines than are seen at once, a scrollbar takes a column."""
        width, room = self.content_size
        if self._view is None:
            lines: Sequence[Line] = [[(NOTHING_YET, "muted")]]
        elif len(lines := page_lines(self._view, width, room, after=self._after)) > room:
            lines = page_lines(self._view, width - 1, room, after=self._after)
        self.query_one(Page).show(lines)
