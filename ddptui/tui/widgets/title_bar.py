"""The first line of every screen: where the user is, and how it goes."""

from textual.content import Content
from textual.widget import Widget

GAP = 2


class TitleBar(Widget):
    """On the left where the user is, on the right how it goes, or what the console is busy with."""

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
    _activity = ""

    def show(self, where: str, how: str) -> None:
        """Set both sides of the line. Names of trials and presets are data, never markup."""
        if (where, how) != (self._where, self._how):
            self._where, self._how = where, how
            self.refresh()

    def show_activity(self, activity: str) -> None:
        """Set what takes the place of the right side; empty: nothing does."""
        self._activity = activity
        self.refresh()

    def render(self) -> Content:
        """The right side gets the room that it needs, the left side the rest."""
        how = self._activity or self._how
        room = max(0, self.size.width - len(how) - GAP * bool(how))
        where = self._where if len(self._where) <= room else self._where[: max(0, room - 1)] + "…"[:room]
        space = " " * max(0, self.size.width - len(where) - len(how))
        return Content.assemble((where, "bold"), space, (how, "$text-muted"))
