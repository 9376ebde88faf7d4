"""Tables with a row cursor: their base class, and the tables of trials, runs, and a trial's ranks."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import ClassVar, Literal

from rich.console import JustifyMethod
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.coordinate import Coordinate
from textual.style import Style
from textual.widgets import DataTable

from ddptui.analysis.results import TrialResult
from ddptui.config.preset import Preset
from ddptui.config.trial import Trial
from ddptui.report.preset_columns import differs, facts
from ddptui.report.ranks import RANK_COLUMNS
from ddptui.store.overview import UNDER_WAY, Overview
from ddptui.text.tables import GAP, Column, Filled, fill, fit, telling
from ddptui.tui.keys import bound, moves
from ddptui.tui.widgets.frame import Fitted
from ddptui.tui.widgets.lists import ROW_KEYS, STATUS_MARKS, UNKNOWN

RowMark = Literal["problem", "skipped"]
Marks = Mapping[str, RowMark]  # by row
NO_MARKS: Marks = {}
NO_WORDS = Content()
MARKED: Mapping[RowMark, str] = {"problem": "$text-error bold", "skipped": "dim"}  # the styles of marked rows
MARK = "●"


class LabTable(DataTable[Text], Fitted):
    """The base of all tables. Shows the first column and as many others as fit; left and right show the rest of them.
    Rows have names: refilling keeps the cursor on its row."""

    DEFAULT_CSS = """
    LabTable, LabTable:focus {
        background: $background; background-tint: transparent;
        border-subtitle-color: $text-muted; overflow-x: hidden;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *ROW_KEYS,
        *moves("left", "turn(-1)", "Other columns"),
        *moves("right", "turn(1)", "Other columns"),
        Binding("home", "scroll_top", "First row", show=False),
        Binding("end", "scroll_bottom", "Last row", show=False),
    ]

    what = "rows"  # what has a row each
    explained: Sequence[tuple[str, str]] = ()  # the headers of the columns, each with its explanation
    _filled: tuple[list[Filled], list[str], dict[str, RowMark], Content] = ([], [], {}, Content())
    _layout: tuple[object, ...] = ()  # the rows and columns of the table, without the texts of its cells
    _page = 0
    _shown: Sequence[Filled] = ()  # the columns of the page

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes, cursor_type="row")

    @property
    def chosen(self) -> str | None:
        """The name of the row under the cursor."""
        place = self.cursor_row
        return self.ordered_rows[place].key.value if 0 <= place < self.row_count else None

    @property
    def names(self) -> list[str | None]:
        """The names of the rows, from top to bottom."""
        return [row.key.value for row in self.ordered_rows]

    @property
    def wanted_lines(self) -> int:
        """The lines that the header and all rows take; 0: there are none."""
        return self.row_count + bool(self.row_count)

    def choose(self, name: str | None) -> None:
        """Move the cursor to the row of this name, if there is one."""
        if name in self.names:
            self.move_cursor(row=self.names.index(name))

    def on_mount(self) -> None:
        self.app.theme_changed_signal.subscribe(self, lambda _: self._recolor())  # cells keep their colors

    def _recolor(self) -> None:
        self._layout = ()
        self.fit()

    def action_turn(self, by: int) -> None:
        self._page += by
        self.fit()

    def fill(
        self, columns: Sequence[Filled], names: Sequence[str], marks: Marks = NO_MARKS, said: Content = NO_WORDS
    ) -> None:
        """Show these columns. `names`: of the rows, in order; `marks`: row name -> mark; `said`: the subtitle."""
        filled = ([*columns], [*names], {**marks}, said)
        if filled != self._filled:
            self._filled = filled
            self.explained = [(column.header, column.about) for column in columns if column.about]
            self.fit()

    def lay_out(self, width: int) -> None:
        columns, names, marks, said = self._filled
        pages = [*_pages(columns, width - GAP)] or [columns[:1]]
        self._page %= len(pages)
        before, self._shown = self._shown, pages[self._page]
        shown = self._shown
        more = Content("← → more") if len(pages) > 1 else NO_WORDS
        self.border_subtitle = Content("   ").join(filter(None, [said, more]))
        # DataTable would measure the widths itself, but only later, when idle.
        widths = [column.width for column in shown]
        sides: list[JustifyMethod] = ["left" if column.left else "right" for column in shown]
        looks = [Style.parse(MARKED[marks[name]]).rich_style if name in marks else "" for name in names]
        layout = ([(column.header, column.key) for column in shown], widths, names, marks)
        if layout == self._layout:
            for place, (old, new) in enumerate(zip(before, shown, strict=True)):
                for row, (was, cell) in enumerate(zip(old.cells, new.cells, strict=True)):
                    if cell != was:
                        text = Text(cell, looks[row], justify=sides[place], no_wrap=True)
                        self.update_cell_at(Coordinate(row, place), text)
            return
        self._layout = layout
        texts = [
            [Text(cell, look, justify=side, no_wrap=True) for cell, look in zip(column.cells, looks, strict=True)]
            for column, side in zip(shown, sides, strict=True)
        ]
        rows = [*zip(*texts, strict=True)]
        chosen, place, scrolled = self.chosen, self.cursor_row, self.scroll_offset
        with self.app.batch_update():  # otherwise the table would be empty for a moment
            self.clear(columns=True)
            for column, side, width in zip(shown, sides, widths, strict=True):
                self.add_column(Text(column.header, justify=side, no_wrap=True), key=column.key, width=width)
            for name, cells in zip(names, rows, strict=True):
                self.add_row(*cells, key=name)
            place = names.index(chosen) if chosen in names else min(place, len(names) - 1)
            self.move_cursor(row=place, scroll=False)
            self.scroll_to(y=scrolled.y, animate=False, immediate=True)


def _pages(columns: Sequence[Filled], width: int) -> Iterator[list[Filled]]:
    """Yield the columns of each page: the first column, and as many others as fit, those of highest worth first."""
    first, *others = columns or [Filled("", [])]
    while page := fit(others, width - first.width - GAP):
        yield [first, *page]
        others = [column for column in others if column.key not in {each.key for each in page}]


LEFT = "bottleneck refused"


class TrialTable(LabTable):
    """Shows a row for each trial, and a column for each field in which they differ."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "screen.run", "Run"),
        bound("edit", "screen.edit", "Change this trial"),
        bound("delete", "screen.remove", "Remove", tooltip="Leave this trial out"),
    ]
    _trials: Mapping[str, Trial] = {}

    @property
    def trial(self) -> Trial | None:
        """The trial under the cursor."""
        return self._trials.get(self.chosen or "")

    def show(self, preset: Preset | None, title: str, left: Mapping[str, str], equal: str = "") -> None:
        """Show the trials of a preset under a title; None: the preset cannot be read. `left`: name of a trial -> why it
        does not get the user's bottleneck. `equal`: a warning about trials that have become equal."""
        self.border_title = title
        self._trials = {trial.name: trial for trial in preset.trials} if preset else {}
        if preset is None:
            return self.fill([], [])
        columns, said = facts(preset), NO_WORDS
        if equal:
            said = Content.styled(f"⚠ {equal}", "$text-warning")
        elif len(preset.trials) > 1:
            apart = ", ".join(fact.header for fact in columns[1:] if differs(fact))
            said = Content(f"baseline {preset.baseline} · differ in {apart or 'nothing'}")
        if left:
            why = [left.get(name, "") for name in self._trials]
            columns.insert(1, Filled(LEFT, why, left=True, key=LEFT, worth=1))
        self.fill(columns, [*self._trials], said=said)


class RunTable(LabTable):
    """Shows a row for each earlier run."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "select_cursor", "Open")]

    def show(self, runs: Sequence[Overview], marked: Collection[str], under_way: str | None) -> None:
        """Show these runs. `marked` and `under_way`: names of runs."""

        def when(known: Overview) -> str:
            return f"{MARK if known.run.name in marked else ' '} {known.when}"

        def status(known: Overview) -> str:
            shown = UNDER_WAY if known.run.name == under_way else known.status
            return f"{STATUS_MARKS.get(shown, UNKNOWN)[0]} {shown}"

        columns: list[Column[Overview]] = [
            Column("  when", when, left=True),
            Column("preset", lambda known: known.preset, left=True),
            Column("status", status, left=True),
            Column("trials", lambda known: known.trials),
            Column("baseline s", lambda known: known.baseline),
            Column("fastest, s", lambda known: known.fastest, left=True),
        ]
        names = [known.run.name for known in runs]
        self.fill(fill(columns, runs), names, {known.run.name: "problem" for known in runs if known.problem})


class RankDetail(LabTable):
    """Shows a row for each rank of a trial's last repeat."""

    what = "ranks"

    def show(self, trial: TrialResult | None) -> None:
        """Show the ranks of the trial's last repeat."""
        repeats = trial.repeats if trial else []
        ranks = repeats[-1].ranks if repeats else []
        said = f"{trial.name}, repeat {len(repeats)}" if trial and repeats else "no repeat has ended"
        self.fill(telling(fill(RANK_COLUMNS, ranks)), [str(rank.rank) for rank in ranks], said=Content(said))
