"""Tables for a page. The order of rows by each column is computed here, so the page's script only applies it."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from ddptui.text.tables import Filled, order, telling

NO_CLASSES: Mapping[int, str] = {}


class Header(NamedTuple):
    """A column's header, with the row order when sorted by this column."""

    text: str
    is_left: bool
    ascending: str  # row numbers, separated by spaces
    descending: str
    about: str  # explanation of the column; empty: none


class Row(NamedTuple):
    """A row's cells, and its kind: failed, skipped, baseline, or empty."""

    cells: Sequence[str]
    kind: str


class TableView(NamedTuple):
    """A table. shared: header -> the value that all rows have; can_be_sorted: whether there are several rows."""

    caption: str
    headers: list[Header]
    rows: list[Row]
    shared: dict[str, str]
    can_be_sorted: bool


def table_view(
    caption: str,
    columns: Sequence[Filled],
    kinds: Mapping[int, str] = NO_CLASSES,
    once: Collection[str] = (),
) -> TableView:
    """Builds a table; leaves out columns without any value, and those that repeat the first column.

    kinds: row number -> its style. once: keys of columns that are shown once above the table if all rows have the same
    value."""
    first, *others = telling(columns)
    shown = [first, *(column for column in others if list(column.cells) != list(first.cells))]
    shared = [column for column in shown if column.key in once and len(set(column.cells)) == 1]
    kept = [column for column in shown if column not in shared]
    rows = enumerate(zip(*(column.cells for column in kept), strict=True))
    return TableView(
        caption,
        [_header(column) for column in kept],
        [Row(cells, kinds.get(number, "")) for number, cells in rows],
        {column.header: column.cells[0] for column in shared},
        len(first.cells) > 1,
    )


def _header(column: Filled) -> Header:
    up, down = (" ".join(map(str, order(column.cells, reverse=reverse))) for reverse in (False, True))
    return Header(column.header, column.left, up, down, column.about)
