"""The parts around a screen's content: title bar, run bar, pane bar, footer, and the grid of panes."""

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from textual.app import RenderResult
from textual.binding import ActiveBinding
from textual.containers import Container
from textual.content import Content
from textual.events import Click, DescendantFocus, MouseMove
from textual.reactive import reactive
from textual.style import Style
from textual.widget import Widget
from textual.widgets import Static

from ddptui.text.drawing import cell_len, shorten


class Fitted(Widget):
    """Lays the content out for the width, anew if that changes. The last base, since the first one gives the styles.

    Textual's Resize does not tell that: it is not sent if the widget's place was asked for between its display and the
    next layout, as a focus does after a scroll.
    """

    _width = 0  # that the content is laid out for; 0: it was hidden then

    def on_mount(self) -> None:
        self.screen.screen_layout_refresh_signal.subscribe(self, lambda _: self._check_width())

    def _check_width(self) -> None:
        if 0 < self.scrollable_content_region.width != self._width:
            self.fit()

    def fit(self) -> None:
        """Lay the content out for the current width."""
        self._width = self.scrollable_content_region.width
        self.lay_out(self._width)

    def lay_out(self, width: int) -> None:
        """Lay the content out for this width, in cells."""
        raise NotImplementedError


DIVIDER = "▏"  # before the palette's key


class Keys(Static):
    """The keys that are active now; a click presses one, and the mouse shows what it does. If there is room, also the
    keys of the screen's SPARE_KEYS, the first ones first. Textual's own footer makes a widget for each key whenever the
    focus moves, which took most of the time of a key press."""

    ALLOW_SELECT = False
    auto_links: reactive[bool] = reactive(False)  # keys keep their colors
    DEFAULT_CSS = "Keys { dock: bottom; height: 1; color: $footer-foreground; background: $footer-background; }"

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, lambda _: self.on_resize())

    def on_resize(self) -> None:
        self.call_after_refresh(self._show_keys)  # the keys are known only when the screen has its widgets

    def on_mouse_move(self, event: MouseMove) -> None:
        self.tooltip = event.style.meta.get("tooltip")

    def on_leave(self) -> None:
        self.tooltip = None

    def _show_keys(self) -> None:
        if not self.is_attached or not self.app.app_focus:  # the user has left the screen, or the terminal
            return
        active = self.screen.active_bindings
        last = active[self.app.COMMAND_PALETTE_BINDING]
        palette = Content.assemble((DIVIDER, "$foreground 20%"), self._key(last, "palette"), " ")
        spare: Sequence[str] = getattr(self.screen, "SPARE_KEYS", ())
        first: dict[str, Content] = {}  # for each action, its first key
        for each in active.values():
            if (each.binding.show or each.binding.action in spare) and each is not last:
                first.setdefault(each.binding.action, Content.assemble(" ", self._key(each), " "))
        width = max(0, self.size.width - palette.cell_length)
        room, shown = width, list[Content]()
        for action in sorted(first, key=lambda action: spare.index(action) + 1 if action in spare else 0):
            if action not in spare or first[action].cell_length <= room:
                shown.append(first[action])
                room -= first[action].cell_length
        self.update(Content.assemble(Content.assemble(*shown).truncate(width, pad=True), palette), layout=False)

    def _key(self, active: ActiveBinding, name: str = "") -> Content:
        """Return a key with its description."""
        _, binding, is_enabled, tooltip = active
        action = f"app.simulate_key('{binding.key}')" if is_enabled else "app.bell"
        shown = Content.assemble(
            (self.app.get_key_display(binding), "bold $footer-key-foreground"), f" {name or binding.description}"
        )
        meta = {"@click": action, "tooltip": tooltip or binding.tooltip or None}
        return (shown if is_enabled else shown.stylize("dim")).stylize(Style.from_meta(meta))


GAP = 2
CHANGED = "b"  # where the user injected or removed delays


class TitleBar(Widget):
    """Shows the current place on the left, and the progress or a running activity on the right."""

    DEFAULT_CSS = "TitleBar { dock: top; height: 1; padding: 0 1; background: $panel; color: $foreground; }"
    shown: reactive[tuple[str, str]] = reactive(("ddptui", ""))  # both sides: names are data, never markup
    activity: reactive[str] = reactive("")  # in place of the right side, if there is one

    def render(self) -> Content:
        where, how = self.shown
        how = self.activity or how
        # The right side has precedence, since it changes.
        room = max(0, self.size.width - cell_len(how) - GAP * bool(how))
        where = shorten(where, room)
        space = " " * max(0, self.size.width - cell_len(where) - cell_len(how))
        return Content.assemble((where, "bold"), space, (how, "$text-muted"))


class ProgressBar(Widget):
    """Shows how much of a run is done; in a replay also the first step of each launch, and the user's changes of
    delays. A click on it seeks to that place of a replay."""

    DEFAULT_CSS = "ProgressBar { display: none; height: 1; padding: 0 1; color: $text-muted; }"
    ALLOW_SELECT = False
    shown: reactive[tuple[float, str, Sequence[float], Sequence[float]]] = reactive((0.0, "", (), ()))

    def __init__(self, seek: Callable[[float], None] | None) -> None:
        """`seek`: seeks to a position in a replay, from 0 to 1."""
        super().__init__()
        self._seek = seek

    def show(self, share: float | None, said: str, firsts: Sequence[float] = (), changes: Sequence[float] = ()) -> None:
        """Draw the done part of the run, from 0 to 1, and marks at such places. None hides the bar. `said`: text behind
        the percentage."""
        self.display = share is not None
        self.shown = share or 0.0, said, firsts, changes

    @property
    def _cells(self) -> int:
        return max(1, self.size.width - len(f" 100%{self.shown[1]}"))

    def render(self) -> Content:
        share, said, firsts, changes = self.shown
        cells = self._cells
        over = round(share * cells)
        bar = ["━"] * over + ["─"] * (cells - over)
        for marks, signs in ((firsts, "┿┼"), (changes, CHANGED * 2)):
            for at in (min(cells - 1, int(mark * cells)) for mark in marks):
                bar[at] = signs[at >= over]
        return Content.assemble(("".join(bar[:over]), "$text-primary"), "".join(bar[over:]), f" {share:4.0%}{said}")

    def on_click(self, event: Click) -> None:
        place = event.get_content_offset(self)
        if self._seek is not None and place is not None and place.x < self._cells:
            self._seek(place.x / self._cells)


class PaneBar(Static):
    """Lists the panes with their keys, if there is no room for all panes. A click chooses one."""

    auto_links: reactive[bool] = reactive(False)  # titles are not underlined
    DEFAULT_CSS = "PaneBar { display: none; height: 1; padding: 0 1; color: $text-muted; }"

    def show(self, titles: Mapping[str, str], chosen: str) -> None:
        """List the panes and highlight the chosen one. `titles`: by the screen's action that chooses the pane."""
        parts = (
            Content.styled(f" {title} ", "bold reverse" if action == chosen else "").stylize(
                Style.from_meta({"@click": f"screen.{action}"})
            )
            for action, title in titles.items()
        )
        self.update(Content(" ").join(parts), layout=False)


class TooSmall(Widget):
    """Shows the terminal's size and the minimum size. The screens' styles decide when it is visible."""

    DEFAULT_CSS = """
    TooSmall {
        display: none; layer: card; dock: top; width: 100%; height: 100%;
        content-align: center middle; text-align: center; background: $background; color: $text;
    }
    """

    def render(self) -> RenderResult:
        width, height = self.app.size
        return f"{width} × {height}: too small.\nddptui needs 60 × 16."  # the minimum for -narrow and -low screens


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
