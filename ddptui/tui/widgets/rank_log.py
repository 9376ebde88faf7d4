"""The log of the chosen rank, as it is being written."""

from pathlib import Path
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widgets import Log

from ddptui.store.logs import LogTail

MOST_LINES = 2000


class RankLog(Log):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "scroll_down", "Down", show=False),
        Binding("k", "scroll_up", "Up", show=False),
        Binding("G", "scroll_end", "To the end", show=False),
        Binding("g", "scroll_home", "To the beginning", show=False),
    ]

    def __init__(self, id: str) -> None:
        super().__init__(id=id, max_lines=MOST_LINES)
        self._tail: LogTail | None = None

    def show(self, path: Path | None) -> None:
        """Write what is new in this log; another log takes its place."""
        if path is None:
            return
        if self._tail is None or self._tail.path != path:
            self._tail = LogTail(path)
            self.clear()
        if lines := self._tail.new_lines():
            self.write_lines(lines)
