"""Which panes there are, where only one of them has room: their keys, and which one is shown."""

from collections.abc import Mapping

from textual.content import Content
from textual.widgets import Static


class PaneBar(Static):
    DEFAULT_CSS = """
    PaneBar { height: 1; padding: 0 1; color: $text-muted; display: none; }
    """

    def show(self, panes: Mapping[str, str], shown: str) -> None:
        """`panes`: their titles by id, in the order of their number keys."""
        parts = []
        for number, (pane, title) in enumerate(panes.items(), start=1):
            style = "bold reverse" if pane == shown else ""
            parts.append(Content.styled(f" {number} {title} ", style))
        self.update(Content(" ").join(parts))
