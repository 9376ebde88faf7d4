"""The base of the Run screen's and the Result screen's panes: which of them are visible, and where."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from textual.containers import Container
from textual.content import Content
from textual.events import DescendantFocus
from textual.widget import Widget

from ddptui.tui.widgets.frame import PaneBar


class PaneGrid(Container):
    """Numbered panes in a grid. A pane without content takes no room, and no key leads to it."""

    DEFAULT_CSS = "PaneGrid { layout: grid; } PaneGrid > .pane { height: 100%; }"
    TITLES: ClassVar[Mapping[str, str]] = {}  # titles by the panes' ids, in the order of the number keys
    SHORT: ClassVar[Mapping[str, str]] = {}  # titles for the bar, where they differ
    AT_FIRST: ClassVar[Sequence[str]] = ()  # the panes with precedence until the user chooses others
    content: Sequence[str] = ()  # the panes that have content
    sharing: Sequence[str] = ()  # the panes that share one place if there is room for all others
    pinned = ""  # the pane that is visible beside the chosen one if there is no room for all

    def __init__(self, *, numbered: bool = True) -> None:
        """`numbered`: whether digits choose panes."""
        super().__init__(id="panes")
        self.numbered = numbered
        self.titles = {**self.TITLES}
        self._chosen = [*self.AT_FIRST]  # the one chosen last comes first

    def on_mount(self) -> None:
        for name in self.TITLES:
            self.pane(name).can_focus = True  # drawings are not focusable by default
        self.choose(self.chosen)

    @property
    def chosen(self) -> str:
        """The pane that the user chose last."""
        return self._chosen[0]

    @property
    def present(self) -> list[str]:
        """The panes that have content, and the chosen one."""
        return [name for name in self.TITLES if name in self.content or name == self.chosen]

    @property
    def is_crowded(self) -> bool:
        """Whether there is no room for all panes: a bar then lists them."""
        return self.screen.has_class("-narrow") or self.screen.has_class("-short")

    def pane(self, name: str) -> Widget:
        """Return the pane with this name, a key of TITLES."""
        return self.query_one(f"#{name}")

    def lay_out(self, shown: Sequence[str]) -> str:
        """Set the columns and rows that each visible pane takes in the grid, and return the heights of the rows."""
        raise NotImplementedError

    def choose(self, name: str) -> None:
        """Focus a pane, and show it if there is no room for all."""
        self._chosen = [name, *(other for other in self._chosen if other != name)]
        self.make_room()  # first, since a hidden pane cannot get the focus
        self.pane(name).focus()

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        """Choose a pane that was clicked."""
        if (name := event.widget.id) is not None and name in self.TITLES and name != self.chosen:
            self.choose(name)

    def on_resize(self) -> None:
        self.make_room()

    def make_room(self) -> None:
        """Show the panes that have content and room, with their keys in their titles."""
        present, crowded, bar = self.present, self.is_crowded, self.screen.query_one(PaneBar)
        pinned = "" if self.screen.has_class("-low") else self.pinned
        shared = [name for name in present if (name != pinned if crowded else name in self.sharing)]
        on_top = next((name for name in self._chosen if name in shared), None)
        shown = [name for name in present if name not in shared or name == on_top]
        keys = {name: f"{number} " * self.numbered for number, name in enumerate(self.TITLES, start=1)}
        for name in self.TITLES:
            pane, others = self.pane(name), shared if name in shared and not crowded else ()
            beside = (f"{keys[other]}{self.titles[other]}" for other in others if other != name)
            title = Content(" · ".join([f"{keys[name]}{self.titles[name]}", *beside]))
            if pane.border_title != title.markup:
                pane.border_title = title
            pane.set_class(name == self.chosen, "-chosen")
            pane.display = name in shown
        self.styles.grid_rows = self.lay_out(shown)
        bar.display = crowded
        titles = {**self.titles, **self.SHORT}
        bar.show({f"pane('{name}')": f"{keys[name]}{titles[name]}" for name in present}, f"pane('{self.chosen}')")
