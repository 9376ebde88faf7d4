"""The first line of every screen: where one is, and how it goes."""

from textual.content import Content
from textual.widget import Widget

GAP = 2


class TitleBar(Widget):
    DEFAULT_CSS = """
    TitleBar {
        dock: top;
        height: 1;
        padding: 0 1;
        background: $panel;
        color: $foreground;
    }
    """

    _where = "ddptui"
    _how = ""

    def show(self, where: str, how: str) -> None:
        """Both sides of the line; names of trials and presets are data, never markup."""
        if (where, how) != (self._where, self._how):
            self._where, self._how = where, how
            self.refresh()

    def render(self) -> Content:
        """How it goes has the room that it wants; where one is, the rest."""
        room = max(0, self.size.width - len(self._how) - GAP * bool(self._how))
        where = self._where if len(self._where) <= room else self._where[: max(0, room - 1)] + "…"[:room]
        space = " " * max(0, self.size.width - len(where) - len(self._how))
        return Content.assemble((where, "bold"), space, (self._how, "$text-muted"))
