"""The parts around a screen's content: title bar, run bar, pane bar, and a card if the terminal is too small."""

from collections.abc import Mapping
from typing import Any

from textual.app import RenderResult
from textual.content import Content
from textual.reactive import reactive
from textual.style import Style
from textual.widget import Widget

from ddptui.text.drawing import shorten

GAP = 2
NO_PANES: Mapping[str, str] = {}


class Bar(Widget):
    """The base of bars: one line that is drawn again only if what it shows has changed, as it may be told often."""

    DEFAULT_CSS = "Bar { height: 1; padding: 0 1; color: $text-muted; }"
    shown: tuple[Any, ...] = ()

    def update(self, *shown: object) -> None:
        """Set what the bar shows."""
        if shown != self.shown:
            self.shown = shown
            self.refresh()


class TitleBar(Bar):
    """Shows the current place on the left, and the progress or a running activity on the right."""

    DEFAULT_CSS = "TitleBar { dock: top; background: $panel; color: $foreground; }"
    shown = ("ddptui", "")
    _activity = ""

    def show(self, where: str, how: str) -> None:
        """Set both sides. Names of trials and presets are data, never markup."""
        self.update(where, how)

    def show_activity(self, activity: str) -> None:
        """Show an activity in place of the right side; an empty one restores it."""
        self._activity = activity
        self.refresh()

    def render(self) -> Content:
        where, how = self.shown
        how = self._activity or how
        room = max(0, self.size.width - len(how) - GAP * bool(how))  # the right side has precedence, since it changes
        where = shorten(where, room)
        space = " " * max(0, self.size.width - len(where) - len(how))
        return Content.assemble((where, "bold"), space, (how, "$text-muted"))


class RunBar(Bar):
    """Shows how much of a run is done, over all its launches. Hidden if there is only one launch."""

    DEFAULT_CSS = "RunBar { display: none; }"
    shown = (0.0,)

    def show(self, part: float | None) -> None:
        """Set the part that is done, from 0 to 1. None hides the bar."""
        self.display = part is not None
        self.update(part or 0.0)

    def render(self) -> Content:
        [part] = self.shown
        percent = f" {part:4.0%} of the run"
        cells = max(0, self.size.width - len(percent))
        over = round(part * cells)
        return Content.assemble(("━" * over, "$text-primary"), "─" * (cells - over), percent)


class PaneBar(Bar):
    """Lists the panes with their keys, if there is no room for all panes. A click chooses one."""

    auto_links: reactive[bool] = reactive(False)  # titles are not underlined
    DEFAULT_CSS = "PaneBar { display: none; }"
    shown = (NO_PANES, "", NO_PANES)

    def show(self, titles: Mapping[str, str], chosen: str, short: Mapping[str, str] = NO_PANES) -> None:
        """List the panes and highlight the chosen one. `titles`: by the screen's action that chooses the pane; `short`:
        titles for a bar that is too narrow for the others."""
        self.update(titles, chosen, short)

    def render(self) -> Content:
        titles, chosen, short = self.shown
        fits = sum(len(title) + 3 for title in titles.values()) - 1 <= self.size.width
        shown = titles if fits else {**titles, **{action: short[action] for action in titles if action in short}}
        return Content(" ").join(
            Content.styled(f" {title} ", "bold reverse" if action == chosen else "").stylize(
                Style.from_meta({"@click": f"screen.{action}"})
            )
            for action, title in shown.items()
        )


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
