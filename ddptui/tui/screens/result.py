"""The Result screen of a training run: its answer, table, time bars, findings and ranks."""

from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.events import ScreenResume
from textual.getters import query_one
from textual.widgets import DataTable

from ddptui.analysis.repeats import extent
from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.host.source import source_line
from ddptui.report import table
from ddptui.report.notes import answer, shown_first
from ddptui.store.runs import Run
from ddptui.tui.keys import bound, moves, name_of
from ddptui.tui.screens.base import EndedRun, PanedScreen, pane_keys
from ddptui.tui.screens.curves import CurvesScreen
from ddptui.tui.screens.dialogs import ColumnsDialog
from ddptui.tui.screens.export import ExportableRun, invitation
from ddptui.tui.widgets.charts import TimeBars
from ddptui.tui.widgets.frame import PaneBar, TitleBar
from ddptui.tui.widgets.result_panes import TITLES, Answer, Comparison, ResultPanes

PICTURE_OF = {"bars": "svg", "waits": "matrix.svg"}  # by panes


class ResultScreen(PanedScreen, ExportableRun):
    """Shows the answer, and as many panes as there is room for. They are about the trial under the cursor."""

    CSS_PATH = "result.tcss"
    PURPOSE = "The trials of a run, compared. The other panes are about the trial under the cursor."
    BINDINGS: ClassVar[list[BindingType]] = [
        bound("answer", "answer", "Answer", tooltip="Answer the questions of this lesson"),
        bound("sort", "sort", "Sort"),
        bound("columns", "columns", "Columns"),
        bound("figure", "difference", "Difference", show=False, tooltip="Show times, or differences to the baseline"),
        bound("copy", "copy_row", "Copy the row", show=False),
        bound("export", "export", "Export"),
        bound("replay", "replay", "Replay"),
        bound("curves", "curves", "Curves", show=False, tooltip="Show the curves of all trials in one chart"),
        bound("reverse", "reverse", "Reverse the sort order", show=False),
        bound("copy_all", "copy_table", "Copy the table as Markdown", show=False),
        *pane_keys(TITLES),
        bound("next", "trial(1)", "Next", show=False, tooltip="The next trial, from every pane"),
        bound("before", "trial(-1)", "Previous", show=False, tooltip="The previous trial"),
        *moves("down", "trial(1)", "Next", tooltip="The next trial, from every pane"),
        *moves("up", "trial(-1)", "Previous", tooltip="The previous trial"),
        Binding("escape", "app.pop_screen", "Back"),
    ]
    SPARE_KEYS = ("curves", "difference", "trial(1)", "trial(-1)", "zoom")
    _table = query_one(Comparison)
    panes = query_one(ResultPanes)

    def __init__(self, run: Run, preset: Preset, results: Results) -> None:
        super().__init__()
        self.run, self.preset, self.results = run, preset, results

    def compose_content(self) -> ComposeResult:
        yield PaneBar()
        if said := answer(self.results):
            yield Answer(self.preset.localized_title, said, id="answer")
        yield ResultPanes()

    def on_mount(self) -> None:
        status = f"{self.run.name}  {self.results.status}, {extent(self.results)}"
        self.query_one(TitleBar).shown = f"{self.preset.name} ▸ result", status
        self._table.pinned = self.console_app.settings.columns
        self._table.show(self.results, self.preset)
        self._table.choose(shown_first(self.results))
        self._show_chosen()

    def on_screen_resume(self, event: ScreenResume) -> None:
        for shown in self.query(Answer):
            shown.border_subtitle = Content(invitation(self.exported()[0], self.app))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return bool(self.preset.questions) if action == "answer" else super().check_action(action, parameters)

    @on(DataTable.RowHighlighted, "#table")
    def _show_chosen(self) -> None:
        self.panes.show(self.results, self.preset, self._table.chosen)

    def action_trial(self, by: int) -> None:
        self._table.move_cursor(row=self._table.cursor_row + by)

    def action_difference(self) -> None:
        bars = self.query_one(TimeBars)
        bars.shows_differences = not bars.shows_differences
        self._show_chosen()
        if self.panes.is_crowded and "bars" in self.panes.present:
            self.action_pane("bars")

    def action_sort(self) -> None:
        self._table.sort_by_next()

    def action_reverse(self) -> None:
        self._table.reverse_sort()

    @work
    async def action_columns(self) -> None:
        chosen = await self.app.push_screen_wait(ColumnsDialog(self._table.telling, self._table.shown))
        if chosen is not None:
            self._table.choose_columns(chosen or None)

    def action_curves(self) -> None:
        self.app.push_screen(CurvesScreen(self.exported()[0]))

    def action_copy_row(self) -> None:
        self.copy("\t".join(self._table.row_as_text()), "The row, with tabs between cells.")

    def action_copy_table(self) -> None:
        self.copy(
            table.markdown(self.results, self.preset, source_line),
            f"The table as Markdown; {name_of('export', self.app)} writes it to a file.",
        )

    @property
    def form(self) -> str:
        return PICTURE_OF.get(self.panes.chosen, super().form)

    def exported(self) -> tuple[EndedRun, str | None]:
        return EndedRun(self.run, self.preset, self.results), self._table.chosen
