"""Tables for a page: cells, and the order of the rows by each column, so that the script needs no rules of its own."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from ddptui.text.tables import Filled, order, telling

NO_CLASSES: Mapping[int, str] = {}


class Header(NamedTuple):
    """A column's header, and the numbers of the rows as sorting by it puts them."""

    text: str
    is_left: bool
    ascending: str
    descending: str
    about: str  # what the column says; empty if that is not explained


class Row(NamedTuple):
    """A row's cells, and what it is: failed, skipped, baseline, or nothing of these."""

    cells: Sequence[str]
    kind: str


class TableView(NamedTuple):
    """A table. shared: by header, what all rows have. can_be_sorted: there are several rows."""

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
    """The columns that have a value and do not repeat the first one. kinds: of rows, by number. once: keys of columns
    that are no column, but said once, if all rows have the same there."""
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
