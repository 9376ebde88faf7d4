"""The base of the Run screen's and the Result screen's panes: which of them are visible, and where."""

from collections.abc import Collection, Mapping, Sequence
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
    SHORT: ClassVar[Mapping[str, str]] = {}  # titles for a narrow bar
    AT_FIRST: ClassVar[Sequence[str]] = ()  # the panes with precedence until the user chooses others

    def __init__(self, *, numbered: bool = True) -> None:
        """`numbered`: whether digits choose panes."""
        super().__init__(id="panes")
        self.numbered = numbered
        self.names = {**self.TITLES}
        self.titles: dict[str, str] = {}  # those that say more than a pane's name
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
        content = self.content()
        return [name for name in self.TITLES if name in content or name == self.chosen]

    @property
    def is_crowded(self) -> bool:
        """Whether there is no room for all panes: a bar then lists them."""
        return self.screen.has_class("-narrow") or self.screen.has_class("-short")

    def pane(self, name: str) -> Widget:
        """Return the pane with this name, a key of TITLES."""
        return self.query_one(f"#{name}")

    def content(self) -> Collection[str]:
        """Return the panes that have content."""
        raise NotImplementedError

    def sharing(self) -> Sequence[str]:
        """Return the panes that share one place, where the one chosen last is visible."""
        raise NotImplementedError

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
        present, sharing, bar = self.present, self.sharing(), self.screen.query_one(PaneBar)
        shared = [name for name in present if name in sharing]
        on_top = next((name for name in self._chosen if name in shared), None)
        shown = [name for name in present if name not in sharing or name == on_top]
        keys = {name: f"{number}" * self.numbered for number, name in enumerate(self.TITLES, start=1)}
        for name in self.TITLES:
            pane, others = self.pane(name), shared if name in shared and not self.is_crowded else ()
            beside = (f"{keys[other]}: {self.names[other].lower()}".lstrip(": ") for other in others if other != name)
            title = Content(" · ".join([f"{keys[name]} {self.titles.get(name, self.names[name])}".lstrip(), *beside]))
            if pane.border_title != title.markup:
                pane.border_title = title
            pane.set_class(name == self.chosen, "-chosen")
            pane.display = name in shown
        self.styles.grid_rows = self.lay_out(shown)
        bar.display = self.is_crowded
        entries = {f"pane('{name}')": f"{keys[name]} {self.names[name]}".lstrip() for name in present}
        short = {f"pane('{name}')": f"{keys[name]} {title}".lstrip() for name, title in self.SHORT.items()}
        bar.show(entries, f"pane('{self.chosen}')", short)
