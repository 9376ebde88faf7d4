"""Tables: groups items, defines columns, chooses those that fit, sorts rows, and renders text, Markdown or CSV."""

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from ddptui.text.drawing import cell_len, ljust, rjust, shorten
from ddptui.text.sanitize import style
from ddptui.text.words import FACTORS, NOTHING

GAP = 2  # spaces between two columns
END, BOLD, DIM, RED = map(style, (0, 1, 2, 31))

Key = TypeVar("Key")
Item = TypeVar("Item")


class Column(NamedTuple, Generic[Item]):
    """The definition of a column."""

    header: str
    cell: Callable[[Item], str]  # the text of an item's cell
    worth: int = 0  # if space is short, the columns with the lowest worth are dropped
    left: bool = False  # whether cells are aligned to the left, as text is; numbers are aligned to the right
    key: str = ""  # names the column in the column chooser and for sorting; if empty, the header does
    about: str = ""  # a sentence: what the column shows, its unit, of what it is the median or mean, when it is empty
    wide: int = 0  # the least width, so that a table that changes all the time keeps its columns in place


class Filled(NamedTuple):
    """A column with its cells, one per row."""

    header: str
    cells: Sequence[str]
    worth: int = 0
    left: bool = False
    key: str = ""
    about: str = ""
    wide: int = 0

    @property
    def width(self) -> int:
        """The width of the column: that of its widest cell or its header."""
        texts = (self.header, *self.cells)
        return max(self.wide, *map(len if "".join(texts).isascii() else cell_len, texts))

    @property
    def is_empty(self) -> bool:
        return all(cell == NOTHING for cell in self.cells)


class Table(NamedTuple):
    """The columns of a table, and how to show them."""

    columns: Sequence[Filled]
    styles: Mapping[int, str] = {}  # style marks, keyed by row number
    at_least: int = 1  # number of columns that are shown at any width


def fill(columns: Iterable[Column[Item]], items: Sequence[Item]) -> list[Filled]:
    """The columns, filled with a cell for each item."""
    return [
        Filled(header, [cell(item) for item in items], worth, left, key or header, about, wide)
        for header, cell, worth, left, key, about, wide in columns
    ]


def telling(columns: Iterable[Filled]) -> list[Filled]:
    """The columns in which at least one row has a value."""
    return [column for column in columns if not column.is_empty]


def fit(columns: Sequence[Filled], width: int, at_least: int = 1) -> list[Filled]:
    """The columns that fit into `width`, in their original order. Columns of higher worth are chosen first, and
    `at_least` of them in any case."""
    chosen, widths = list[int](), [column.width for column in columns]
    # Continue after a column that does not fit: a narrower one of lower worth may still fit.
    for place in sorted(range(len(columns)), key=lambda place: -columns[place].worth):
        if len(chosen) < at_least or total([widths[other] for other in [*chosen, place]]) <= width:
            chosen.append(place)
    return [columns[place] for place in sorted(chosen)]


def total(widths: Sequence[int]) -> int:
    """The total width of a table whose columns have these widths."""
    return sum(widths) + GAP * (len(widths) - 1)


def as_text(table: Table, width: int, *, color: bool = False, rule: bool = True) -> list[str]:
    """The table as lines no wider than `width`; columns that do not fit are dropped. rule: draw a line below the
    header."""
    columns = fit(telling(table.columns), width, table.at_least)
    if not columns:
        return []
    widths = [column.width for column in columns]
    widths[0] -= max(0, total(widths) - width)  # even the columns that are always shown may be too wide
    styles = {-1: BOLD, **table.styles} if color else {}
    left = [column.left for column in columns]
    rows = enumerate(zip(*([column.header, *column.cells] for column in columns), strict=True), start=-1)
    cut = ((row, map(shorten, cells, widths)) for row, cells in rows)  # row -1 is the header
    lines = [styled(line(cells, widths, left), styles.get(row, "")) for row, cells in cut]
    return [lines[0], *(["─" * total(widths)] if rule else []), *lines[1:]]


def styled(words: str, mark: str) -> str:
    """The words in the style that `mark` requests; unchanged if there is no mark."""
    return f"{mark}{words}{END}" if mark and words else words


def as_markdown(table: Table) -> list[str]:
    """The lines of a Markdown table; columns without any value are left out."""
    columns = telling(table.columns)
    rows = zip(*(column.cells for column in columns), strict=True)
    return [
        _marked([column.header for column in columns]),
        "|" + "|".join(" :-- " if column.left else " --: " for column in columns) + "|",
        *(_marked(cells) for cells in rows),
    ]


class _Echo:
    """A file whose writer gets back what it writes."""

    def write(self, text: str) -> str:
        return text


def csv_lines(header: Sequence[str], rows: Iterable[Mapping[str, object]]) -> Iterator[str]:
    """The text of a CSV file, line by line; cells that a row lacks stay empty."""
    writer = csv.DictWriter(_Echo(), header, lineterminator="\n")  # the default is \r\n
    yield writer.writeheader()
    yield from map(writer.writerow, rows)


def as_csv(header: Sequence[str], rows: Iterable[Mapping[str, object]]) -> str:
    """The text of a CSV file."""
    return "".join(csv_lines(header, rows))


def grouped(pairs: Iterable[tuple[Key, Item]]) -> dict[Key, list[Item]]:
    """Groups pairs by their first part: the keys are the first parts, the values lists of the second parts."""
    groups: dict[Key, list[Item]] = {}
    for key, item in pairs:
        groups.setdefault(key, []).append(item)
    return groups


def value_at(part: object, path: str) -> object:
    """The value at a dotted path, such as culprit.rank, in a part of results.json; None if it is missing."""
    for name in path.split("."):
        part = getattr(part, name) if part is not None else None
    return part


def cell_at(path: str, text: Callable[[Any], str] = str) -> Callable[[object], str]:
    """What a column shows if that is what an item has at a path, as text: a dash where there is nothing."""
    return lambda item: NOTHING if (value := value_at(item, path)) is None else text(value)


def line(cells: Iterable[str], widths: Iterable[int], left: Iterable[bool]) -> str:
    """One row of a text table. widths, left: the width of each column, and whether it is aligned to the left."""
    aligned = (
        ljust(cell, width) if is_left else rjust(cell, width)
        for cell, width, is_left in zip(cells, widths, left, strict=True)
    )
    return (" " * GAP).join(aligned).replace("\n", " ").rstrip()


def _marked(cells: Iterable[str]) -> str:
    within = (cell.replace("|", "\\|").replace("\n", " ") for cell in cells)  # either character would end the cell
    return f"| {' | '.join(within)} |"


# A number with its unit. A sign counts only at the start of a word. Numbers joined by + or … share a unit: 1.9+1.2 GB.
FIGURE = re.compile(
    r"((?:(?<!\S)[+-])?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e[+-]?\d+)?)"
    rf"(?=(?:[+…][\d.]+)* ?({'|'.join(FACTORS)})\b)?"
)
WITHOUT_FIGURE = {NOTHING, "", "failed", "stopped", "not reached"}
Part = tuple[int, float, str]  # (0, number, "") or (1, 0.0, words): numbers sort before words


def order(cells: Sequence[str], *, reverse: bool = False) -> list[int]:
    """The indices of the cells in natural order: 9 before 10, 3 ms before 2 s, -1 before +1; cells without a figure
    last. The sort is stable."""
    with_figure = [place for place, cell in enumerate(cells) if cell not in WITHOUT_FIGURE]
    without = [place for place, cell in enumerate(cells) if cell in WITHOUT_FIGURE]
    return sorted(with_figure, key=lambda place: _parts(cells[place]), reverse=reverse) + without


def _parts(cell: str) -> list[Part]:
    """The sort key of a cell: its numbers, converted to bytes or seconds if they have a unit, and the words between."""
    words, *found = FIGURE.split(cell.casefold())
    parts: list[Part] = [(1, 0.0, words)] if words else []
    for figure, unit, after in zip(found[::3], found[1::3], found[2::3], strict=True):
        parts.append((0, float(figure.replace(",", "")) * (FACTORS[unit] if unit else 1.0), ""))
        parts += [(1, 0.0, after)] if after else []
    return parts
