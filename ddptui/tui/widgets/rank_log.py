"""The log of the chosen rank, as the rank writes it."""

from pathlib import Path
from typing import ClassVar

from textual.binding import BindingType
from textual.widgets import Log

from ddptui.store.logs import LogTail
from ddptui.tui.widgets.keys import SCROLL_KEYS

MOST_LINES = 2000


class RankLog(Log):
    """Follows one rank's log file."""

    BINDINGS: ClassVar[list[BindingType]] = [*SCROLL_KEYS]

    def __init__(self, id: str) -> None:
        super().__init__(id=id, max_lines=MOST_LINES)
        self._tail: LogTail | None = None

    def show(self, path: Path | None) -> None:
        """Show what is new in this log file. Another file replaces the one before."""
        if path is None:
            return
        if self._tail is None or self._tail.path != path:
            self._tail = LogTail(path)
            self.clear()
        if lines := self._tail.new_lines():
            self.write_lines(lines)
