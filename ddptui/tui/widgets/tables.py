"""Tables whose rows are chosen whole: the base, and those of trials, of runs, and of a trial's ranks."""

from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar, NamedTuple

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import DataTable

from ddptui.analysis.results import TrialResult
from ddptui.config.preset import Preset
from ddptui.config.trial import Trial
from ddptui.report.preset_columns import facts
from ddptui.report.ranks import RANK_COLUMNS
from ddptui.store.overview import Overview
from ddptui.text.tables import Filled, fill, telling
from ddptui.text.words import printable
from ddptui.tui.widgets.lists import ROW_KEYS


class Header(NamedTuple):
    """The head of a column. `left`: aligned to the left, as words are; figures stand to the right."""

    key: str
    text: str
    left: bool = False


Rows = Mapping[str, Sequence[str]]
Styles = Mapping[str, Style]
NO_STYLES: Styles = {}
RUN_HEADERS = (
    Header("when", "  when", left=True),
    Header("preset", "preset", left=True),
    Header("status", "status", left=True),
    Header("trials", "trials"),
    Header("baseline", "baseline s"),
    Header("fastest", "fastest, s", left=True),
)
MARK = "●"
SIGNS = {"ok": "✓", "failed": "✗", "interrupted": "■", "under way": "▸"}


class LabTable(DataTable[Text]):
    """The base of all tables but the live one of ranks: its rows have names, and can be replaced under the cursor."""

    DEFAULT_CSS = """
    LabTable, LabTable:focus {
        background: $background;
        background-tint: transparent;
        border-subtitle-color: $text-muted;
        & > .datatable--fixed { background: $background; color: $foreground; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *ROW_KEYS,
        Binding("h", "cursor_left", "Scroll left", show=False),
        Binding("l", "cursor_right", "Scroll right", show=False),
    ]

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes, cursor_type="row", fixed_columns=1)
        self._filled: tuple[object, ...] = ()

    @property
    def chosen(self) -> str | None:
        """The name of the row under the cursor."""
        place = self.cursor_row
        return self.ordered_rows[place].key.value if 0 <= place < self.row_count else None

    def fill(self, headers: Sequence[Header], rows: Rows, styles: Styles = NO_STYLES) -> None:
        """Show these rows, by name. The cursor stays on the row that it was on, wherever that is now."""
        filled = (tuple(headers), [*rows.items()], styles)
        if filled == self._filled:
            return
        self._filled = filled
        chosen, column, scrolled = self.chosen, self.cursor_column, self.scroll_offset
        with self.app.batch_update():
            self._rebuild(headers, rows, styles)
            place = [*rows].index(chosen) if chosen is not None and chosen in rows else 0
            self.move_cursor(row=place, column=column, scroll=False)
            self.scroll_to(scrolled.x, scrolled.y, animate=False, immediate=True)

    def fill_columns(self, columns: Sequence[Filled], names: Sequence[str], styles: Styles = NO_STYLES) -> None:
        """Show these columns. `names`: those of the rows, in order."""
        headers = [Header(column.key, column.header, column.left) for column in columns]
        cells = zip(*(column.cells for column in columns), strict=True)
        self.fill(headers, dict(zip(names, cells, strict=True)) if columns else {}, styles)

    def _rebuild(self, headers: Sequence[Header], rows: Rows, styles: Styles) -> None:
        self.clear(columns=True)
        for place, header in enumerate(headers):
            widest = max(cell_len(text) for text in [header.text, *(row[place] for row in rows.values())])
            self.add_column(_cell(header.text, header), key=header.key, width=widest)
        for name, row in rows.items():
            cells = (_cell(text, header, styles.get(name, "")) for text, header in zip(row, headers, strict=True))
            self.add_row(*cells, key=name)


def _cell(text: str, header: Header, style: Style | str = "") -> Text:
    return Text(text, style, justify="left" if header.left else "right", no_wrap=True)


class TrialTable(LabTable):
    """Shows a row for each trial, and a column for each field that tells them apart."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "screen.run", "Run")]

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id, classes="pane")
        self._trials: dict[str, Trial] = {}

    @property
    def trial(self) -> Trial | None:
        """Return the trial under the cursor."""
        return self._trials.get(self.chosen or "")

    def show(self, preset: Preset | None, title: str) -> None:
        """Show the trials of a preset under a title; None: no trials, since the preset cannot be read."""
        self.border_title, self.border_subtitle = title, ""
        self._trials = {trial.name: trial for trial in preset.trials} if preset else {}
        if preset is None:
            return self.fill([], {})
        shown = facts(preset)
        headers = [Header(fact.header, fact.header, left=True) for fact in shown]
        cells = zip(*(map(printable, fact.cells) for fact in shown), strict=True)
        self.fill(headers, dict(zip(self._trials, cells, strict=True)))
        if len(preset.trials) > 1:
            apart = ", ".join(fact.header for fact in shown[1:] if fact.differs)
            self.border_subtitle = Content(f"baseline {preset.baseline} · they differ in {apart or 'nothing'}")


class RunTable(LabTable):
    """Shows a row for each earlier run."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"run-table--problem"}
    DEFAULT_CSS = "RunTable > .run-table--problem { color: $text-error; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "select_cursor", "Open"),
        Binding("home", "scroll_top", "First row", show=False),
        Binding("end", "scroll_bottom", "Last row", show=False),
    ]

    def show(self, runs: Sequence[Overview], marked: Collection[str], under_way: str | None) -> None:
        """Show these runs. `marked` and `under_way`: names of runs."""
        problem = self.get_component_rich_style("run-table--problem", partial=True)
        styles = {known.run.name: problem for known in runs if known.problem}
        rows = {known.run.name: _cells(known, known.run.name in marked, under_way) for known in runs}
        self.fill(RUN_HEADERS, rows, styles)


def _cells(known: Overview, marked: bool, under_way: str | None) -> tuple[str, ...]:
    status = "under way" if known.run.name == under_way else known.status
    when = f"{MARK if marked else ' '} {known.when}"
    return when, known.preset, f"{SIGNS.get(status, '?')} {status}", known.trials, known.baseline, known.fastest


class RankDetail(LabTable):
    """Shows a row for each rank of the last repeat of a trial."""

    DEFAULT_CSS = "RankDetail { scrollbar-size-horizontal: 0; }"  # it would hide a rank where there are two

    _repeat = ""

    def show(self, trial: TrialResult | None) -> None:
        """Show the ranks of the trial's last repeat."""
        repeats = trial.repeats if trial else []
        self._repeat = f"{trial.name}, repeat {len(repeats)}" if trial and repeats else "no repeat has ended"
        ranks = repeats[-1].ranks if repeats else []
        self.fill_columns(telling(fill(RANK_COLUMNS, ranks)), [str(rank.rank) for rank in ranks])
        self.call_after_refresh(self._show_subtitle)

    def on_resize(self) -> None:
        self.call_after_refresh(self._show_subtitle)

    def _show_subtitle(self) -> None:
        self.border_subtitle = Content(self._repeat + ("   ← → more" if self.max_scroll_x > 0 else ""))
