"""The bar that lists the panes with their keys, where only one of them has room."""

from collections.abc import Mapping

from textual.content import Content
from textual.widgets import Static


class PaneBar(Static):
    """Hidden where all panes have room; the screens' styles show it."""

    DEFAULT_CSS = """
    PaneBar { height: 1; padding: 0 1; color: $text-muted; display: none; }
    """

    def show(self, panes: Mapping[str, str], shown: str) -> None:
        """Show the panes, and which one is chosen. `panes`: titles by id, in the order of their number keys."""
        parts = []
        for number, (pane, title) in enumerate(panes.items(), start=1):
            style = "bold reverse" if pane == shown else ""
            parts.append(Content.styled(f" {number} {title} ", style))
        self.update(Content(" ").join(parts))
