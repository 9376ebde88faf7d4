"""The results of a run: a table that compares its trials, and the findings in words."""

from collections.abc import Collection, Sequence

from textual.content import Content
from textual.widgets import DataTable, Static

from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.report.columns import AT_LEAST, columns_of
from ddptui.report.notes import in_words
from ddptui.report.rows import Row, rows_of
from ddptui.text.tables import GAP, Filled, fit, order, telling
from ddptui.tui.widgets.tables import FittedTable, RowMark
from ddptui.tui.widgets.texts import TextPane
from ddptui.tui.widgets.time_bars import BASELINE

MARKS: dict[str, RowMark] = {"failed": "problem", "skipped": "skipped"}
ARROWS = {False: " ▲", True: " ▼"}


class Comparison(FittedTable):
    """Compares trials: as many columns as fit, or the chosen ones. `growing`: without trials that have not begun."""

    DEFAULT_CSS = "Comparison { scrollbar-size-horizontal: 0; }"  # a scrollbar would hide a trial

    def __init__(self, *, growing: bool = False, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._growing = growing
        self._of: tuple[Results, Preset] | None = None
        self.usual: Sequence[str] = ()  # keys of columns that the user wants seen of every preset
        self._wanted: Collection[str] | None = None  # columns; None: as many as fit
        self._sorted_by: str | None = None  # None: in the preset's order
        self._reversed = False

    def show(self, results: Results, preset: Preset) -> None:
        """Show these results. Does nothing if they are the same object as before."""
        if self._of is None or self._of[0] is not results:
            self._of = results, preset
            self.refill()

    @property
    def shown(self) -> list[str]:
        """The keys of the columns on the screen."""
        return [key.value for key in self.columns if key.value]

    @property
    def telling(self) -> list[Filled]:
        """The columns that have a value for at least one of these trials."""
        return telling(self._columns(self._rows()))

    def row_as_text(self) -> list[str]:
        """The cells of the chosen row."""
        return [str(cell) for cell in self.get_row_at(self.cursor_row)] if self.row_count else []

    def choose_columns(self, wanted: Collection[str] | None) -> None:
        """Show these columns, by key; None: as many as fit."""
        self._wanted = wanted
        self.refill()

    def sort_by(self, key: str | None, *, reverse: bool = False) -> None:
        """Sort by a column; None: in the preset's order."""
        self._sorted_by, self._reversed = key, reverse
        self.refill()

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

    def _rows(self) -> list[Row]:
        rows = rows_of(*self._of) if self._of else []
        return [row for row in rows if not (self._growing and row.result.status == "skipped")]

    def _columns(self, rows: list[Row]) -> list[Filled]:
        return columns_of(rows, self._of[1].columns, self.usual) if self._of else []

    def _marked(self, column: Filled, rows: list[Row]) -> Filled:
        if column.key == "trial" and self._of and len(self._of[0].trials) > 1:
            marks = [f" {BASELINE}" * (self._of[0].base_of(row.result) is row.result) for row in rows]
            column = column._replace(cells=[cell + mark for cell, mark in zip(column.cells, marks, strict=True)])
        arrow = ARROWS[self._reversed] if column.key == self._sorted_by else ""
        return column._replace(header=column.header + arrow)

    def refill(self) -> None:
        rows = self._rows()
        if not rows:
            return self.fill([], [])
        columns = [self._marked(column, rows) for column in self._columns(rows)]
        by = next((column.cells for column in columns if column.key == self._sorted_by), None)
        places = order(by, reverse=self._reversed) if by else range(len(rows))
        if self._wanted:
            shown = [column for column in columns if column.key in self._wanted]
        else:  # a pad on both sides, where the report has gaps between
            shown = fit(telling(columns), self.scrollable_content_region.width - GAP, AT_LEAST)
        shown = [column._replace(cells=[column.cells[place] for place in places]) for column in shown]
        statuses = {row.result.name: row.result.status for row in rows}
        marks = {name: MARKS[status] for name, status in statuses.items() if status in MARKS}
        self.fill(shown, [rows[place].result.name for place in places], marks)
        self.say(f"{BASELINE} baseline")


class Answer(Static):
    """Shows the answer to the preset's question, the first sentence in bold, below the question."""

    def __init__(self, question: str, sentences: Sequence[str], *, id: str) -> None:
        first, *others = sentences
        super().__init__(Content.assemble((first, "bold"), *(f" {other}" for other in others)), id=id)
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
