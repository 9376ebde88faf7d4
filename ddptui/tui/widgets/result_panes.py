"""The panes of the Result screen: comparison, findings in words, who waited for whom, and how lines are divided."""

from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.widgets import DataTable, Static

from ddptui.analysis.breakdown import WaitMatrix, wait_matrix
from ddptui.analysis.results import Results, TrialResult
from ddptui.config.preset import Preset
from ddptui.report.columns import columns_of
from ddptui.report.matrix import ITSELF, MOST_ROWS, describe, largest, span, with_numbers
from ddptui.report.notes import in_short, in_words
from ddptui.report.rows import DISTURBED, ROUGH, rows_of
from ddptui.text.tables import Filled, order, telling
from ddptui.text.words import NOTHING, in_a_row
from ddptui.tui.keys import bound
from ddptui.tui.widgets.charts import BASELINE, TimeBars
from ddptui.tui.widgets.frame import PaneGrid
from ddptui.tui.widgets.lists import ROW_KEYS
from ddptui.tui.widgets.tables import LabTable, RankDetail, RowMark
from ddptui.tui.widgets.texts import TextPane, WherePane

MARKS: dict[str, RowMark] = {"failed": "problem", "skipped": "skipped"}
ARROWS = {False: " ▲", True: " ▼"}


class Comparison(LabTable):
    """Compares trials, in all columns or in the chosen ones. `growing`: without trials that have not begun."""

    what = "results"

    def __init__(self, *, growing: bool = False, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._growing = growing
        self._of: tuple[Results, Preset] | None = None
        self.pinned: Sequence[str] = ()  # keys of columns that the user wants seen of every preset
        self._wanted: Collection[str] | None = None  # columns; None: all
        self._sorted_by: str | None = None  # None: in the preset's order
        self._reversed = False
        self.telling: Sequence[Filled] = ()  # the columns that have a value for at least one of the trials

    def show(self, results: Results, preset: Preset) -> None:
        """Show these results. Does nothing if they are the same object as before."""
        if self._of is None or self._of[0] is not results:
            self._of = results, preset
            self._refill()

    @property
    def shown(self) -> list[str]:
        """The keys of the chosen columns, or of those on the screen."""
        return [column.key for column in (self._filled[0] if self._wanted else self._shown)]

    def row_as_text(self) -> list[str]:
        """The cells of the chosen row."""
        return [str(cell) for cell in self.get_row_at(self.cursor_row)] if self.row_count else []

    def choose_columns(self, wanted: Collection[str] | None) -> None:
        """Show these columns, by key; None: all, as many at a time as fit."""
        self._wanted = wanted
        self._refill()

    def sort_by(self, key: str | None, *, reverse: bool = False) -> None:
        """Sort by a column; None: in the preset's order."""
        self._sorted_by, self._reversed = key, reverse
        self._refill()

    def sort_by_next(self) -> None:
        """Sort by the next column; after the last one, in the preset's order."""
        keys: list[str | None] = [None, *self.shown]
        place = keys.index(self._sorted_by) if self._sorted_by in keys else 0
        self.sort_by(keys[(place + 1) % len(keys)])

    def reverse_sort(self) -> None:
        """Sort the other way round."""
        self.sort_by(self._sorted_by or "trial", reverse=not self._reversed)

    def on_data_table_header_selected(self, event: DataTable.HeaderSelected) -> None:
        """Sort by a clicked column; a second click reverses the order."""
        key = event.column_key.value
        self.sort_by(key, reverse=key == self._sorted_by and not self._reversed)

    def _refill(self) -> None:
        if self._of is None:
            return
        results, preset = self._of
        rows = [row for row in rows_of(results, preset) if not (self._growing and row.result.status == "skipped")]
        columns = columns_of(rows, preset.columns, self.pinned)
        self.telling = telling(columns)
        by = next((column.cells for column in columns if column.key == self._sorted_by), None)
        places = order(by, reverse=self._reversed) if by else range(len(rows))
        trials = [rows[place].result for place in places]
        baselines = [len(results.trials) > 1 and results.base_of(trial) is trial for trial in trials]
        shown = []
        for column in [each for each in columns if each.key in self._wanted] if self._wanted else self.telling:
            cells = [column.cells[place] for place in places]
            if column.key == "trial":
                cells = [f"{cell}{f' {BASELINE}' * is_one}" for cell, is_one in zip(cells, baselines, strict=True)]
            arrow = ARROWS[self._reversed] if column.key == self._sorted_by else ""
            shown.append(column._replace(header=column.header + arrow, cells=cells))
        marks = {trial.name: MARKS[trial.status] for trial in trials if trial.status in MARKS}
        is_rough = any(DISTURBED in cell for column in shown for cell in column.cells)
        said = Content(f"{BASELINE} baseline{f'   {ROUGH}' * is_rough}")
        self.fill(shown, [trial.name for trial in trials], marks, said)


class Answer(Static):
    """Shows the answer to the preset's question, the first sentence in bold, below the question."""

    def __init__(self, question: str, sentences: Sequence[str], *, id: str) -> None:
        words = in_a_row(sentences, ".")
        super().__init__(Content(words).stylize("bold", 0, len(sentences[0])), id=id)
        self.border_title = Content(question)


class Verdict(TextPane):
    """Shows the findings of a run, those on the chosen trial first."""

    @property
    def wanted_lines(self) -> int:
        """How many lines all findings take at the present width."""
        text = self.query_one(Static)
        return text.get_content_height(self.size, self.screen.size, text.size.width) if text.size else 1

    def show(self, results: Results, preset: Preset, chosen: str | None) -> None:
        """Show the findings. `chosen`: the name of the trial under the cursor."""
        notes = in_words(results, preset, chosen)
        paragraphs = [*map(Content, notes.chosen), *(Content.styled(note, "dim") for note in notes.others)]
        if notes.published:
            paragraphs.append(Content("\n".join(notes.published)))
        paragraphs += (Content.styled(note, "dim") for note in notes.reading)
        self.query_one(Static).update(Content("\n\n").join(paragraphs))
        self.scroll_home(animate=False)


class WhoWaits(DataTable[Text]):
    """Shows waiting ranks as rows and late ranks as columns; many ranks are grouped into blocks."""

    DEFAULT_CSS = "WhoWaits, WhoWaits:focus { background: $background; background-tint: transparent; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        *ROW_KEYS,
        bound("left", "cursor_left", "Rank on the left", show=False),
        bound("right", "cursor_right", "Rank on the right", show=False),
    ]
    _trial: TrialResult | None = None
    _matrix: WaitMatrix | None = None  # None: waits are unknown

    def __init__(self, *, id: str, classes: str) -> None:
        super().__init__(id=id, classes=classes, fixed_columns=1)

    def show(self, trial: TrialResult | None) -> None:
        """Show the waits of a trial's ranks, with the cursor on the longest wait."""
        if trial is self._trial:
            return
        self._trial, self._matrix = trial, wait_matrix(trial, MOST_ROWS) if trial else None
        self.clear(columns=True)
        if self._matrix:
            shown = with_numbers(self._matrix)
            corner = shown.heads[-1][: len(shown.labels[0])]
            self.add_columns(corner, *(Text(f"for {span(ranks)}", justify="right") for ranks in self._matrix.ranks))
            for label, row in zip(shown.labels, shown.cells, strict=True):
                texts = (cell.strip() for cell in row)
                looks = ((text, "dim" if text in (ITSELF, NOTHING) else "") for text in texts)
                self.add_row(Text(label), *(Text(text, look, justify="right") for text, look in looks))
            waiting, late = largest(self._matrix)
            self.move_cursor(row=waiting, column=late + 1)

    @property
    def wanted_lines(self) -> int:
        """The lines of the matrix with its header; 0: there is none."""
        return self.row_count + bool(self.row_count)

    def on_data_table_cell_highlighted(self, event: DataTable.CellHighlighted) -> None:
        """Explain the cell under the cursor."""
        row, column = event.coordinate
        words = describe(self._matrix, row, column - 1) if self._matrix and column else ""
        self.border_subtitle = Content(words)


TITLES = {
    "table": "Trials",
    "bars": "Where the time went",
    "verdict": "In words",
    "ranks": "Ranks",
    "waits": "Who waits for whom",
    "where": "Where in the code",
}
BORDER = 2  # lines
TABLE_PART, PART = 0.4, 0.3  # maximum parts of the lines for the table, and for other panes, if all are visible


class ResultPanes(PaneGrid):
    """Holds all panes, of which one, two or all are visible. They are about the trial under the table's cursor."""

    TITLES = TITLES
    SHORT: ClassVar[Mapping[str, str]] = {"bars": "Time", "verdict": "Words", "waits": "Waits", "where": "Where"}
    AT_FIRST = ("table", "verdict", "ranks", "where")
    sharing = ("ranks", "where")
    pinned = "table"

    def compose(self) -> ComposeResult:  # in the order of the grid
        yield Comparison(id="table", classes="pane")
        yield TimeBars(id="bars", classes="pane")
        yield Verdict(id="verdict", classes="pane")
        yield WhoWaits(id="waits", classes="pane")
        yield RankDetail(id="ranks", classes="pane")
        yield WherePane(id="where", classes="pane")

    def show(self, results: Results, preset: Preset, chosen: str | None) -> None:
        """Show a trial in all panes except the table, where it was chosen."""
        trial = next((trial for trial in results.trials if trial.name == chosen), None)
        bars = self.query_one(TimeBars)
        bars.show(results, chosen)
        self.titles["bars"] = f"{TITLES['bars']}{', against the baseline' * bars.shows_differences}"
        self.query_one(Verdict).show(results, preset, chosen)
        self.titles["verdict"] = ": ".join(filter(None, [TITLES["verdict"], in_short(trial)]))
        self.query_one(WhoWaits).show(trial)
        self.query_one(RankDetail).show(trial)
        self.query_one(WherePane).show(trial, results)
        self.content = [name for name in TITLES if self._wanted(name)]
        self.make_room()

    def lay_out(self, shown: Sequence[str]) -> str:
        for answer in self.screen.query(Answer):
            answer.display = self.chosen == "table" or not self.screen.has_class("-low")
        beside_words = [] if self.is_crowded else [name for name in ("bars", "waits") if name in shown]
        for name in TITLES:
            is_half = name in beside_words or (name == "verdict" and beside_words)
            self.pane(name).styles.column_span = 1 if is_half else 2
        self.query_one(Verdict).styles.row_span = max(1, len(beside_words))
        if len(shown) == 1 or not self.size.height:
            return "1fr"
        if self.is_crowded:
            left = 1 - (self._wanted(shown[1]) + BORDER) / self.size.height  # the other pane may need less than half
            return f"{self._lines('table', max(0.5, left))} 1fr"
        rows = [self._lines("table", TABLE_PART), "1fr"]
        if len(beside_words) > 1:
            rows.insert(1, self._lines("bars", PART))
        return " ".join([*rows, *(self._lines(name, PART) for name in shown if name in self.sharing)])

    def _lines(self, name: str, part: float) -> str:
        """Return the height of a pane that takes no more than its content, and no more than this part of the room."""
        return str(min(self._wanted(name) + BORDER, round(self.size.height * part)))

    def _wanted(self, name: str) -> int:
        """Return the number of lines that a pane's content takes; 0: it has none."""
        pane = self.pane(name)
        assert isinstance(pane, Comparison | TimeBars | Verdict | RankDetail | WhoWaits | WherePane)
        return pane.wanted_lines
