"""The parts around a screen's content: title bar, run bar, pane bar, and a card if the terminal is too small."""

from collections.abc import Callable, Mapping, Sequence

from textual.app import RenderResult
from textual.content import Content
from textual.events import Click
from textual.reactive import reactive
from textual.style import Style
from textual.widget import Widget
from textual.widgets import Static

from ddptui.text.drawing import cell_len, shorten

GAP = 2
CHANGED = "b"  # where the user injected or removed delays


class TitleBar(Widget):
    """Shows the current place on the left, and the progress or a running activity on the right."""

    DEFAULT_CSS = "TitleBar { dock: top; height: 1; padding: 0 1; background: $panel; color: $foreground; }"
    shown: reactive[tuple[str, str]] = reactive(("ddptui", ""))
    activity: reactive[str] = reactive("")  # in place of the right side, if there is one

    def show(self, where: str, how: str) -> None:
        """Set both sides. Names of trials and presets are data, never markup."""
        self.shown = where, how

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
