"""Two runs side by side: the answer, the table, and what else differs."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar

from textual import events, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Static

from ddptui.report.run_diff import Comparison, comparison
from ddptui.report.run_diff.matching import Matches, pairs, suggested
from ddptui.report.run_diff.render import ELSE, FORMATS, in_words
from ddptui.text.tables import telling
from ddptui.tui.background import in_background
from ddptui.tui.keys import bound
from ddptui.tui.screens.base import CURVES_KEY, ZOOM_KEY, EndedRun
from ddptui.tui.screens.curves import CurvesScreen
from ddptui.tui.screens.export import Exportable
from ddptui.tui.screens.match import MatchDialog
from ddptui.tui.widgets.frame import TitleBar
from ddptui.tui.widgets.tables import LabTable
from ddptui.tui.widgets.texts import TextPane

PANES = {"both": "In both runs", "differences": ELSE}


class CompareScreen(Exportable):
    """Compares run B with run A."""

    CSS_PATH = "compare.tcss"
    forms: Mapping[str, str] = {
        "html": "one file for a browser: the answer, the table, what else differs",
        "markdown": "the table with all its columns, and what else differs",
        "csv": "one line per trial or primitive, every figure in full",
        "json": "both runs' names, the answer, every figure, what else differs",
    }
    PURPOSE = "Whether B was faster or slower than A. No difference is seen where chance may explain it."
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(number), f"pane('{pane}')", PANES[pane], show=False) for number, pane in enumerate(PANES, 1)),
        bound("match", "match", "Match", tooltip="Which trial of A is compared with which one of B"),
        CURVES_KEY,
        bound("export", "export", "Export"),
        ZOOM_KEY,
        Binding("escape", "app.pop_screen", "Back"),
    ]
    SPARE_KEYS = ("curves",)

    def __init__(self, a: EndedRun, b: EndedRun, compared: Comparison) -> None:
        super().__init__()
        self._a, self._b, self._compared = a, b, compared
        self._matches: Matches | None = None  # None: by name

    @property
    def explained(self) -> dict[str, Sequence[tuple[str, str]]]:
        return {"Columns": self.query_one(LabTable).explained}

    @property
    def exported(self) -> str:
        return f"{self._compared.a}-and-{self._compared.b}"

    def text_in(self, form: str) -> list[str]:
        if form != "html":
            return [FORMATS[form](self._compared)]
        from ddptui.page.comparison import comparison_page  # late: the first picture must not wait for it

        return [comparison_page(self._compared)]

    def compose_content(self) -> ComposeResult:
        yield Static(id="answer", markup=False)
        yield LabTable(id="both", classes="pane")
        yield TextPane(id="differences", classes="pane")

    def on_mount(self) -> None:
        self.query_one(TitleBar).show("Two runs", f"A {self._compared.a}   B {self._compared.b}")
        for number, (pane, title) in enumerate(PANES.items(), 1):
            self.query_one(f"#{pane}").border_title = f"{number} {title}"
        self._show()
        self.action_pane("both")  # Textual focuses nothing on a screen that opens while the terminal has no focus
        if not pairs(self._a.results, self._b.results):
            self.action_match()

    def _show(self) -> None:
        compared = self._compared
        self.query_one("#answer", Static).update(compared.answer)
        table = compared.table.columns
        rows = range(max((len(column.cells) for column in table), default=0))
        both = self.query_one(LabTable)
        both.fill(telling(table), [*map(str, rows)])
        both.say("")
        paragraphs = ["\n".join(in_words(compared)), *compared.notes]
        self.query_one("#differences Static", Static).update("\n\n".join(paragraphs))

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        self._mark(event.widget.id)

    def _mark(self, chosen: str | None) -> None:
        for pane in PANES:
            self.query_one(f"#{pane}").set_class(pane == chosen, "-chosen")

    def action_pane(self, pane: str) -> None:
        self._mark(pane)  # first: a hidden pane cannot take the focus
        self.keep_zoomed()
        self.query_one(f"#{pane}").focus()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action != "curves" or self._a.preset.kind != "primitives"  # which have no losses

    def action_curves(self) -> None:
        self.app.push_screen(CurvesScreen({"A: ": self._a, "B: ": self._b}))

    @work(exclusive=True, group="match")
    async def action_match(self) -> None:
        """Ask which trials are compared, and compare them."""
        a, b = self._a.results, self._b.results
        matches = await self.app.push_screen_wait(MatchDialog(a, b, self._matches or suggested(a, b)))
        if matches is not None:
            self._matches = matches
            self._compared = await in_background(partial(comparison, a, b, matches))
            self._show()
