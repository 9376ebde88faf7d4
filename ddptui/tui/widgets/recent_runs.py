"""The last runs: when, which preset, and how they ended."""

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets.option_list import Option

from ddptui.store.overview import RecentRun
from ddptui.store.runs import Run
from ddptui.text.printable import printable
from ddptui.tui.widgets.chooser import Chooser
from ddptui.tui.widgets.two_ends import TwoEnds

MARKS = {"ok": ("✓", "$text-success"), "failed": ("✗", "$text-error"), "interrupted": ("■", "$text-warning")}
UNKNOWN = ("?", "$text-error")


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

    def show(self, lines: Sequence[RecentRun]) -> None:
        """List these runs. The cursor stays at its place, so an unmoved one is on the newest run."""
        place = self.highlighted
        self._runs = [line.run for line in lines]
        self.set_options([Option(_line(line)) for line in lines] or [Option("none yet", disabled=True)])
        self.highlighted = min(place or 0, len(lines) - 1) if lines else None

    def run_at(self, place: int) -> Run:
        """Return the run in this line."""
        return self._runs[place]


def _line(line: RecentRun) -> TwoEnds:
    mark, style = MARKS.get(line.status, UNKNOWN)
    left = Content.assemble((f"{line.when:>5} ", "dim"), printable(line.preset))
    return TwoEnds(left, Content.assemble((mark, style), f" {line.status}"))
