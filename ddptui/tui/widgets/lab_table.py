"""A table whose rows are chosen whole and known by name; what is in it can be replaced under the cursor."""

from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.widgets import DataTable

from ddptui.text.tables import Filled
from ddptui.tui.widgets.keys import ROW_KEYS


class Header(NamedTuple):
    """The head of a column."""

    key: str
    words: str
    left: bool = False  # words; figures stand to the right


class LabTable(DataTable[Text]):
    """The base of all tables but the one of ranks."""

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
        return self._named(self.cursor_row)

    def fill(
        self,
        headers: Sequence[Header],
        rows: Mapping[str, Sequence[str]],
        styles: Mapping[str, Style] | None = None,
    ) -> None:
        """Show these rows, by name. The cursor stays on the row that it was on, wherever that is now."""
        filled = (tuple(headers), [*rows.items()], styles or {})
        if filled == self._filled:
            return
        self._filled = filled
        chosen, column, scrolled = self.chosen, self.cursor_column, self.scroll_offset
        with self.app.batch_update():
            self._rebuild(headers, rows, styles or {})
            place = [*rows].index(chosen) if chosen is not None and chosen in rows else 0
            self.move_cursor(row=place, column=column, scroll=False)
            self.scroll_to(scrolled.x, scrolled.y, animate=False, immediate=True)

    def fill_columns(
        self, columns: Sequence[Filled], names: Sequence[str], styles: Mapping[str, Style] | None = None
    ) -> None:
        """Show these columns; names are those of their rows, in order."""
        headers = [Header(column.key, column.header, column.left) for column in columns]
        cells = zip(*(column.cells for column in columns), strict=True)
        self.fill(headers, dict(zip(names, cells, strict=True)) if columns else {}, styles)

    def _rebuild(
        self, headers: Sequence[Header], rows: Mapping[str, Sequence[str]], styles: Mapping[str, Style]
    ) -> None:
        self.clear(columns=True)
        for place, header in enumerate(headers):
            widest = max(cell_len(words) for words in [header.words, *(row[place] for row in rows.values())])
            self.add_column(_cell(header.words, header), key=header.key, width=widest)
        for name, row in rows.items():
            style = styles.get(name, "")
            cells = [_cell(words, header, style) for words, header in zip(row, headers, strict=True)]
            self.add_row(*cells, key=name)

    def _named(self, place: int) -> str | None:
        return self.ordered_rows[place].key.value if 0 <= place < self.row_count else None


def _cell(words: str, header: Header, style: Style | str = "") -> Text:
    return Text(words, style, justify="left" if header.left else "right", no_wrap=True)
