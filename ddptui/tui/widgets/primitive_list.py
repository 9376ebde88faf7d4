"""The list of a trial's primitives, one of which is chosen."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from textual.content import Content
from textual.widgets.option_list import Option

from ddptui.analysis.primitives.cells import PrimitiveKey, by_operation
from ddptui.analysis.primitives.results import PrimitivesResult
from ddptui.report.primitives.ownership import view_title
from ddptui.tui.widgets.chooser import Chooser

MARKS = {True: "• ", False: "  ", None: " "}
FAULT = " !"
BORDER = 3  # and a scrollbar
WIDEST = 32  # more is cut off


class Item(NamedTuple):
    """One line. `marked`: it stays in the plot, whichever is chosen (None: there is no plot); `is_wrong`: the backend
    cannot do it, or did it wrong."""

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

    @property
    def chosen(self) -> str | None:
        """Return the name of the item under the cursor."""
        return self.highlighted_option.id if self.highlighted_option else None

    def show(self, items: Sequence[Item]) -> None:
        """Show these items. The cursor stays on the item that it was on."""
        if items == self._items:
            return
        chosen, scrolled = self.chosen, self.scroll_offset
        self._items = items
        self.styles.width = BORDER + min(WIDEST, max((_line(item).cell_length for item in items), default=0))
        self.set_options([Option(_line(item), item.name) for item in items])
        self.choose(chosen)
        self.scroll_to(y=scrolled.y, animate=False, immediate=True)

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
