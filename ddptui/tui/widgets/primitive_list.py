"""The primitives of a trial, one of which is looked at."""

from collections.abc import Sequence
from typing import NamedTuple

from textual.content import Content
from textual.widgets.option_list import Option

from ddptui.tui.widgets.chooser import Chooser

MARKS = {True: "• ", False: "  ", None: " "}
FAULT = " !"
BORDER = 3  # and a scrollbar
WIDEST = 32  # more is cut off


class Item(NamedTuple):
    """One line. marked: it is drawn, whichever is chosen (None: nothing is drawn); is_wrong: the backend cannot do it,
    or did it wrong."""

    name: str
    marked: bool | None = None
    is_wrong: bool = False


class PrimitiveList(Chooser):
    def __init__(self, *, id: str) -> None:
        super().__init__(id=id, classes="pane")
        self.border_title = "Primitives"
        self._items: Sequence[Item] = ()

    @property
    def chosen(self) -> str | None:
        return self.highlighted_option.id if self.highlighted_option else None

    def show(self, items: Sequence[Item]) -> None:
        """The cursor stays on the one that it was on."""
        if items == self._items:
            return
        chosen, scrolled = self.chosen, self.scroll_offset
        self._items = items
        self.styles.width = BORDER + min(WIDEST, max((_line(item).cell_length for item in items), default=0))
        self.set_options([Option(_line(item), item.name) for item in items])
        self.choose(chosen)
        self.scroll_to(y=scrolled.y, animate=False, immediate=True)

    def choose(self, name: str | None) -> None:
        """The first, where there is no such one."""
        names = [item.name for item in self._items]
        self.highlighted = names.index(name) if name in names else 0 if names else None

    def step(self, by: int) -> bool:
        """Go on, or back; whether there was anywhere to go."""
        place = (self.highlighted or 0) + by
        if not 0 <= place < self.option_count:
            return False
        self.highlighted = place
        return True


def _line(item: Item) -> Content:
    return Content.assemble(
        (MARKS[item.marked], "$text-accent"), item.name, (FAULT if item.is_wrong else "", "$text-error")
    )
