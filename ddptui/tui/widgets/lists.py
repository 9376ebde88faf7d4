"""Lists to choose one line from, their lines, and the keys j k g G of vi and less."""

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.css.styles import RulesMap
from textual.strip import Strip
from textual.style import Style
from textual.visual import RenderOptions, Visual
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from ddptui.store.overview import RecentRun
from ddptui.store.runs import Run
from ddptui.text.words import printable

FEWEST_COLUMNS = 24  # in which more than the beginning of a title can be read
STATUS_MARKS = {"ok": ("✓", "$text-success"), "failed": ("✗", "$text-error"), "interrupted": ("■", "$text-warning")}
UNKNOWN = ("?", "$text-error")  # a status that a newer ddptui has written


def _line_keys(*actions: str) -> list[BindingType]:
    """Bind j k g G to these four actions: each kind of Textual widget names them differently."""
    descriptions = ("One line down", "One line up", "To the start", "To the end")
    return [Binding(*key, show=False) for key in zip("jkgG", actions, descriptions, strict=True)]


SCROLL_KEYS = _line_keys("scroll_down", "scroll_up", "scroll_home", "scroll_end")
ROW_KEYS = _line_keys("cursor_down", "cursor_up", "scroll_top", "scroll_bottom")


class Chooser(OptionList):
    """The base of all lists: without a border, with the line keys."""

    BINDINGS: ClassVar[list[BindingType]] = _line_keys("cursor_down", "cursor_up", "first", "last")
    DEFAULT_CSS = """
    Chooser, Chooser:focus { border: none; padding: 0; background: transparent; scrollbar-size-vertical: 1; }
    """

    @property
    def chosen(self) -> str | None:
        """The id of the option under the cursor."""
        return self.highlighted_option.id if self.highlighted_option else None

    def refill(self, options: Sequence[Option]) -> None:
        """Replace the options. The cursor stays on its option if that is among them, else it is on the first."""
        chosen, scrolled = self.chosen, self.scroll_offset
        places = {option.id: place for place, option in enumerate(options) if not option.disabled}
        self.set_options(options)
        self.highlighted = places.get(chosen, next(iter(places.values()), None))
        if chosen in places:
            self.scroll_to(y=scrolled.y, animate=False, immediate=True)


class TwoEnds(Visual):
    """A line with a name on the left, a note on the right, and a text between where there is room.

    The text `between` starts in the column `begins`, so that the lines of a list align.
    """

    def __init__(self, left: Content, right: Content, between: Content | None = None, begins: int = 0) -> None:
        self._left, self._right, self._between, self._begins = left, right, between, begins

    def render_strips(self, width: int, height: int | None, style: Style, options: RenderOptions) -> list[Strip]:
        room = max(0, width - self._right.cell_length - 1)
        line = Content.assemble(self._left_part(room).truncate(room, ellipsis=True, pad=True), " ", self._right)
        return line.truncate(max(width, 1)).render_strips(width, 1, style, options)

    def _left_part(self, room: int) -> Content:
        begins = max(self._begins, self._left.cell_length + 1)
        if not self._between or room < begins + FEWEST_COLUMNS:
            return self._left
        return Content.assemble(self._left.truncate(begins, pad=True), self._between)

    def get_optimal_width(self, rules: RulesMap, container_width: int) -> int:
        return container_width

    def get_height(self, rules: RulesMap, width: int) -> int:
        return 1


class RecentRuns(Chooser):
    """Lists the last runs, newest first."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "select", "Open the run")]
    DEFAULT_CSS = """
    RecentRuns:blur > .option-list--option-highlighted { background: transparent; text-style: none; }
    """

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id, classes="pane")
        self.border_title = "Last runs"
        self._runs: list[Run] = []

    def show(self, runs: Sequence[RecentRun]) -> None:
        """List these runs. The cursor stays at its place, so an unmoved one is on the newest run."""
        place = self.highlighted
        self._runs = [recent.run for recent in runs]
        self.set_options([Option(_line(recent)) for recent in runs] or [Option("none yet", disabled=True)])
        self.highlighted = min(place or 0, len(runs) - 1) if runs else None

    def run_at(self, place: int) -> Run:
        """Return the run in this line."""
        return self._runs[place]


def _line(recent: RecentRun) -> TwoEnds:
    mark, style = STATUS_MARKS.get(recent.status, UNKNOWN)
    left = Content.assemble((f"{recent.when:>5} ", "dim"), printable(recent.preset))
    return TwoEnds(left, Content.assemble((mark, style), f" {recent.status}"))
