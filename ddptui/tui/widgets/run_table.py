"""Earlier runs, a row each."""

from collections.abc import Collection, Sequence
from typing import ClassVar

from rich.style import Style
from textual.binding import Binding, BindingType

from ddptui.store.overview import Overview
from ddptui.tui.widgets.lab_table import Header, LabTable

HEADERS = (
    Header("when", "  when", left=True),
    Header("preset", "preset", left=True),
    Header("status", "status", left=True),
    Header("trials", "trials"),
    Header("baseline", "baseline s"),
    Header("fastest", "fastest, s", left=True),
)
MARK = "●"
SIGNS = {"ok": "✓", "failed": "✗", "interrupted": "■", "under way": "▸"}


class RunTable(LabTable):
    """Shows a row for each run."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"run-table--problem"}
    DEFAULT_CSS = "RunTable > .run-table--problem { color: $text-error; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "select_cursor", "Open"),
        Binding("home", "scroll_top", "First row", show=False),
        Binding("end", "scroll_bottom", "Last row", show=False),
    ]

    def show(self, runs: Sequence[Overview], marked: Collection[str], under_way: str | None) -> None:
        """Runs are known by their names: those that are marked, and the one that goes on."""
        problem = self.get_component_rich_style("run-table--problem", partial=True)
        styles: dict[str, Style] = {known.run.name: problem for known in runs if known.problem}
        rows = {known.run.name: _cells(known, known.run.name in marked, under_way) for known in runs}
        self.fill(HEADERS, rows, styles)


def _cells(known: Overview, marked: bool, under_way: str | None) -> tuple[str, ...]:
    status = "under way" if known.run.name == under_way else known.status
    when = f"{MARK if marked else ' '} {known.when}"
    return when, known.preset, f"{SIGNS.get(status, '?')} {status}", known.trials, known.baseline, known.fastest
