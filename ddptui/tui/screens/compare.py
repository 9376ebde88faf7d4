"""Two runs side by side: their common trials, and what else differs between the runs."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from ddptui.analysis.results import Results
from ddptui.report import run_diff
from ddptui.text.tables import fill, telling
from ddptui.tui.screens.base import LabScreen
from ddptui.tui.widgets.frame import TitleBar
from ddptui.tui.widgets.tables import LabTable


class CompareScreen(LabScreen):
    """Compares run A with run B."""

    CSS_PATH = "compare.tcss"
    PURPOSE = (
        "Two runs, trial by trial. «Within the spread»: the repeats of both overlap, so neither is the faster one."
    )
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "app.pop_screen", "Back")]

    def __init__(self, a: Results, b: Results) -> None:
        super().__init__()
        self._a, self._b = a, b

    def compose_content(self) -> ComposeResult:
        yield LabTable(id="pairs", classes="pane")
        with VerticalScroll(id="differences", classes="pane"):
            yield Static(markup=False)

    def on_mount(self) -> None:
        self.query_one(TitleBar).show("Two runs", f"A {self._a.run}   B {self._b.run}")
        pairs = run_diff.pairs(self._a, self._b)
        columns = telling(fill(run_diff.COLUMNS, pairs))
        table = self.query_one(LabTable)
        table.border_title = "Trials of both" if pairs else "No trial is in both"
        table.fill_columns(columns, [pair.a.name for pair in pairs])
        lines = run_diff.differences(self._a, self._b) or ["Nothing: same trials, same fields, same machine."]
        self.query_one("#differences").border_title = "What else differs"
        self.query_one("#differences Static", Static).update(Content("\n").join(map(Content, lines)))
        table.focus()
