"""Tables with a row cursor: their base class, and the tables of trials, runs, and a trial's ranks."""

from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate
from typing import ClassVar, Literal

from rich.cells import cell_len
from rich.console import JustifyMethod
from rich.segment import Segment
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.strip import Strip
from textual.widgets import DataTable

from ddptui.analysis.results import TrialResult
from ddptui.config.preset import Preset
from ddptui.config.trial import Trial
from ddptui.report.preset_columns import differs, facts
from ddptui.report.ranks import RANK_COLUMNS
from ddptui.store.overview import UNDER_WAY, Overview
from ddptui.text.tables import Column, Filled, fill, telling
from ddptui.tui.keys import bound
from ddptui.tui.widgets.lists import ROW_KEYS, STATUS_MARKS, UNKNOWN

RowMark = Literal["problem", "skipped"]
NO_MARKS: Mapping[str, RowMark] = {}
MARK = "●"


class LabTable(DataTable[Text]):
    """The base of all tables but the live table of ranks. Rows have names; refilling keeps the cursor on its row."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"lab-table--problem", "lab-table--skipped"}
    DEFAULT_CSS = """
    LabTable > .lab-table--problem { color: $text-error; text-style: bold; }
    LabTable > .lab-table--skipped { text-style: dim; }
    LabTable, LabTable:focus {
        background: $background;
        background-tint: transparent;
        border-subtitle-color: $text-muted;
        & > .datatable--fixed { background: $background; color: $foreground; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *ROW_KEYS,
        bound("left", "cursor_left", "Scroll left", show=False),
        bound("right", "cursor_right", "Scroll right", show=False),
    ]

    explained: Sequence[tuple[str, str]] = ()  # the headers of the visible columns, each with its explanation
    _filled: tuple[list[Filled], list[str], dict[str, RowMark]] = ([], [], {})
    _said: str | None = None

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes, cursor_type="row", fixed_columns=1)  # names do not scroll

    @property
    def chosen(self) -> str | None:
        """The name of the row under the cursor."""
        place = self.cursor_row
        return self.ordered_rows[place].key.value if 0 <= place < self.row_count else None

    @property
    def names(self) -> list[str | None]:
        """The names of the rows, from top to bottom."""
        return [row.key.value for row in self.ordered_rows]

    def say(self, subtitle: str) -> None:
        """Set the subtitle; a hint is added if there are more columns than are visible."""
        self._said = subtitle
        self.call_after_refresh(self._show_subtitle)  # the scroll range is known only after the layout

    def on_resize(self) -> None:
        if self._said is not None:
            self.call_after_refresh(self._show_subtitle)

    def _show_subtitle(self) -> None:
        more = "← → more" if self.max_scroll_x > 0 else ""
        self.border_subtitle = Content("   ".join(filter(None, [self._said, more])))

    def action_cursor_right(self) -> None:
        """Scroll to the next column; within a column wider than the visible part, by that part."""
        at, (begins, room) = self.scroll_offset.x, self._stops()
        self.scroll_to(min([begin for begin in begins if begin > at] + [at + room]), animate=False)

    def action_cursor_left(self) -> None:
        """Scroll to the previous column, likewise."""
        at, (begins, room) = self.scroll_offset.x, self._stops()
        self.scroll_to(max([begin for begin in begins if begin < at] + [at - room]), animate=False)

    def _stops(self) -> tuple[list[int], int]:
        """The scroll offset of each column, at which it follows the fixed one; and the width beside the fixed one."""
        (_, fixed), *others = self._spans() or [(0, 0)]
        return [begin - fixed for begin, _ in others], max(1, self.size.width - fixed)

    def _spans(self) -> list[tuple[int, int]]:
        """The start and end of each column, in cells from the left edge."""
        ends = [*accumulate(column.get_render_width(self) for column in self.ordered_columns)]
        return [*zip([0, *ends], ends, strict=False)]

    @property
    def wanted_lines(self) -> int:
        """The lines that the header and all rows take; 0: there are none."""
        return self.row_count + bool(self.row_count)

    def choose(self, name: str | None) -> None:
        """Move the cursor to the row of this name, if there is one."""
        if name in self.names:
            self.move_cursor(row=self.names.index(name))

    def on_mount(self) -> None:
        self.app.theme_changed_signal.subscribe(self, lambda _: self._build())  # cells do not change colors themselves

    def fill(self, columns: Sequence[Filled], names: Sequence[str], marks: Mapping[str, RowMark] = NO_MARKS) -> None:
        """Show these columns. `names`: of the rows, in order; `marks`: row name -> mark."""
        filled = ([*columns], [*names], {**marks})
        if filled != self._filled:  # changing one cell costs as much as all: every visible row is drawn again
            self._filled = filled
            self._build()

    def _build(self) -> None:
        columns, names, marks = self._filled
        self.explained = [(column.header, column.about) for column in columns]
        chosen, at, scrolled = self.chosen, self.cursor_column, self.scroll_offset
        with self.app.batch_update():  # otherwise the table would be empty for a moment
            self.clear(columns=True)
            sides: list[JustifyMethod] = ["left" if column.left else "right" for column in columns]
            for column, side in zip(columns, sides, strict=True):
                # DataTable would measure the width itself, but only later, when idle.
                widest = max(map(cell_len, (column.header, *column.cells)))
                self.add_column(Text(column.header, justify=side, no_wrap=True), key=column.key, width=widest)
            styles = {
                name: self.get_component_rich_style(f"lab-table--{mark}", partial=True) for name, mark in marks.items()
            }
            rows = zip(*(column.cells for column in columns), strict=True)  # empty if there are no columns
            for name, row in zip(names, rows, strict=False):
                style = styles.get(name, "")
                cells = (Text(cell, style, justify=side, no_wrap=True) for cell, side in zip(row, sides, strict=True))
                self.add_row(*cells, key=name)
            place = names.index(chosen) if chosen is not None and chosen in names else 0
            self.move_cursor(row=place, column=at, scroll=False)  # back to its row, which may have moved
            self.scroll_to(scrolled.x, scrolled.y, animate=False, immediate=True)


class FittedTable(LabTable):
    """The base of tables that show as many columns as fit; each new width refills them."""

    def refill(self) -> None:
        """Fill the table for its current width."""
        raise NotImplementedError

    def on_resize(self) -> None:
        self.refill()


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
        self.border_title, self.border_subtitle = title, ""
        self._trials = {trial.name: trial for trial in preset.trials} if preset else {}
        if preset is None:
            return self.fill([], [])
        shown = facts(preset)
        columns = [*shown]
        if left:
            why = [left.get(name, "") for name in self._trials]
            columns.insert(1, Filled(LEFT, why, left=True, key=LEFT))
        self.fill(columns, [*self._trials])
        if equal:
            self.border_subtitle = Content.styled(f"⚠ {equal}", "$text-warning")
        elif len(preset.trials) > 1:
            apart = ", ".join(fact.header for fact in shown[1:] if differs(fact))
            self.border_subtitle = Content(f"baseline {preset.baseline} · differ in {apart or 'nothing'}")


class RunTable(LabTable):
    """Shows a row for each earlier run."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "select_cursor", "Open", show=False),
        Binding("home", "scroll_top", "First row", show=False),
        Binding("end", "scroll_bottom", "Last row", show=False),
    ]

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
    """Shows a row for each rank of a trial's last repeat. Only whole columns are visible, since a figure that is cut
    off misleads."""

    DEFAULT_CSS = "RankDetail { scrollbar-size-horizontal: 0; }"  # a scrollbar would hide one of two ranks

    def show(self, trial: TrialResult | None) -> None:
        """Show the ranks of the trial's last repeat."""
        repeats = trial.repeats if trial else []
        ranks = repeats[-1].ranks if repeats else []
        columns = telling(fill(RANK_COLUMNS, ranks))
        self.fill(columns, [str(rank.rank) for rank in ranks])
        self.say(f"{trial.name}, repeat {len(repeats)}" if trial and repeats else "no repeat has ended")

    def render_line(self, y: int) -> Strip:
        strip = super().render_line(y)
        for begin, end in self._cut_columns():
            hidden = [Segment(" " * segment.cell_length, segment.style) for segment in strip.crop(begin, end)]
            strip = Strip.join([strip.crop(0, begin), Strip(hidden), strip.crop(end)])
        return strip

    def _cut_columns(self) -> list[tuple[int, int]]:
        """The visible parts of columns that are cut off but would fit whole, in cells from the left of the table."""
        (_, fixed), *others = self._spans() or [(0, 0)]
        width, x = self.size.width, self.scroll_offset.x
        moved = [(begin - x, end - x) for begin, end in others if end - begin <= width - fixed]
        in_sight = [(max(begin, fixed), min(end, width), end - begin) for begin, end in moved]
        return [(begin, end) for begin, end, whole in in_sight if 0 < end - begin < whole]
