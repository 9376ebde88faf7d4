"""The results of a run: a table that compares its trials, and the findings in words."""

from collections.abc import Collection, Sequence

from textual.content import Content
from textual.widgets import DataTable, Static

from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.report.columns import columns_of
from ddptui.report.notes import in_words
from ddptui.report.rows import DISTURBED, ROUGH, rows_of
from ddptui.text.tables import Filled, order, telling
from ddptui.text.words import in_a_row
from ddptui.tui.widgets.tables import LabTable, RowMark
from ddptui.tui.widgets.texts import TextPane
from ddptui.tui.widgets.time_bars import BASELINE

MARKS: dict[str, RowMark] = {"failed": "problem", "skipped": "skipped"}
ARROWS = {False: " ▲", True: " ▼"}


class Comparison(LabTable):
    """Compares trials, in all columns or in the chosen ones. `growing`: without trials that have not begun."""

    def __init__(self, *, growing: bool = False, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._growing = growing
        self._of: tuple[Results, Preset] | None = None
        self.usual: Sequence[str] = ()  # keys of columns that the user wants seen of every preset
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
        columns = columns_of(rows, preset.columns, self.usual)
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
