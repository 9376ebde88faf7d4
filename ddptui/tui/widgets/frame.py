"""The parts around a screen's content: title bar, run bar, pane bar, and a card if the terminal is too small."""

from collections.abc import Callable, Mapping

from textual.app import RenderResult
from textual.content import Content
from textual.events import Click
from textual.widget import Widget

from ddptui.text.drawing import shorten

GAP = 2
NO_PANES: Mapping[str, str] = {}


class TitleBar(Widget):
    """Shows the current place on the left, and the progress or a running activity on the right."""

    DEFAULT_CSS = "TitleBar { dock: top; height: 1; padding: 0 1; background: $panel; color: $foreground; }"
    _where = "ddptui"
    _how = ""
    _activity = ""

    def show(self, where: str, how: str) -> None:
        """Set both sides. Names of trials and presets are data, never markup."""
        if (where, how) != (self._where, self._how):  # called several times a second
            self._where, self._how = where, how
            self.refresh()

    def show_activity(self, activity: str) -> None:
        """Show an activity in place of the right side; an empty one restores it."""
        self._activity = activity
        self.refresh()

    def render(self) -> Content:
        how = self._activity or self._how
        room = max(0, self.size.width - len(how) - GAP * bool(how))  # the right side has precedence, since it changes
        where = shorten(self._where, room)
        space = " " * max(0, self.size.width - len(where) - len(how))
        return Content.assemble((where, "bold"), space, (how, "$text-muted"))


class RunBar(Widget):
    """Shows how much of a run is done, over all its launches. Hidden if there is only one launch."""

    DEFAULT_CSS = "RunBar { height: 1; padding: 0 1; color: $text-muted; display: none; }"
    _part: float | None = None

    def show(self, part: float | None) -> None:
        """Set the part that is done, from 0 to 1. None hides the bar."""
        if part != self._part:
            self._part, self.display = part, part is not None
            self.refresh()

    def render(self) -> Content:
        part = self._part or 0.0
        percent = f" {part:4.0%} of the run"
        cells = max(0, self.size.width - len(percent))
        over = round(part * cells)
        return Content.assemble(("━" * over, "$text-primary"), "─" * (cells - over), percent)


class PaneBar(Widget):
    """Lists the panes with their keys. The screens' styles hide it if there is room for all panes."""

    DEFAULT_CSS = "PaneBar { height: 1; padding: 0 1; color: $text-muted; display: none; }"
    _panes: Mapping[str, str] = {}
    _short: Mapping[str, str] = {}
    _shown = ""

    def __init__(self, choose: Callable[[str], None], *, numbered: bool = True) -> None:
        """`choose`: called with the id of a clicked pane. `numbered`: whether digits choose panes."""
        super().__init__()
        self._choose, self._numbered = choose, numbered

    def show(self, panes: Mapping[str, str], shown: str, short: Mapping[str, str] = NO_PANES) -> None:
        """List the panes and highlight the chosen one. `panes`: id -> title, in the order of the number keys. `short`:
        id -> title for a bar that is too narrow for the others."""
        self._panes, self._shown, self._short = panes, shown, short
        self.refresh()

    def render(self) -> Content:
        return Content(" ").join(self._parts())

    def _parts(self) -> list[Content]:
        whole = self._titled(self._panes)
        fits = sum(part.cell_length + 1 for part in whole) - 1 <= self.size.width
        return whole if fits else self._titled({**self._panes, **self._short})

    def _titled(self, panes: Mapping[str, str]) -> list[Content]:
        return [
            Content.styled(
                f" {number} {title} " if self._numbered else f" {title} ", "bold reverse" if pane == self._shown else ""
            )
            for number, (pane, title) in enumerate(panes.items(), start=1)
        ]

    def on_click(self, event: Click) -> None:
        place = event.get_content_offset(self)
        end = 0
        for pane, part in zip(self._panes, self._parts(), strict=True):
            end += part.cell_length + 1  # with the gap
            if place is not None and place.x < end:
                self._choose(pane)
                break


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
