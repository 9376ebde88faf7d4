"""Tables as text that fits a terminal and as Markdown, and the order of rows by a column.

Rows sort as a person reads them: 9 before 10, and rows without a figure last.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from ddptui.text.drawing import shorten
from ddptui.text.units import NOTHING

GAP = "  "
BOLD, DIM, RED, END = "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[0m"


class Column(NamedTuple):
    """worth: where space is short, the least goes first. left: words, that begin under each other."""

    header: str
    cells: Sequence[str]
    worth: int
    left: bool = False

    @property
    def width(self) -> int:
        return max(map(len, (self.header, *self.cells)))

    def aligned(self, cell: str, width: int) -> str:
        return shorten(cell, width).ljust(width) if self.left else cell.rjust(width)


class Table(NamedTuple):
    """red: the numbers of the rows in which something is wrong."""

    columns: tuple[Column, ...]
    red: frozenset[int] = frozenset()


def telling(table: Table) -> list[Column]:
    """The columns in which at least one row has something to say."""
    return [column for column in table.columns if any(cell != NOTHING for cell in column.cells)]


def fitting(table: Table, width: int) -> list[Column]:
    """Those for which there is room, the most telling taken first, in their order; the most telling in any case."""
    taken: list[Column] = []
    for column in sorted(telling(table), key=lambda column: -column.worth):
        if not taken or _total([*taken, column]) <= width:
            taken.append(column)
    return [column for column in table.columns if column in taken]


def as_text(table: Table, width: int, *, color: bool) -> list[str]:
    """No line wider than `width`: columns are left out, lines never broken; words are cut where they alone are."""
    columns = fitting(table, width)
    if not columns:
        return []
    widths = [min(column.width, width) for column in columns]
    rows = [_line([column.header for column in columns], columns, widths)]
    rows += [_line(cells, columns, widths) for cells in zip(*(column.cells for column in columns), strict=True)]
    header, *lines = rows
    if color:
        header = f"{BOLD}{header}{END}"
        lines = [f"{RED}{line}{END}" if number in table.red else line for number, line in enumerate(lines)]
    return [header, "─" * (sum(widths) + len(GAP) * (len(widths) - 1)), *lines]


def as_markdown(table: Table) -> list[str]:
    """All columns that say something."""
    columns = telling(table)
    rows = zip(*(column.cells for column in columns), strict=True)
    return [
        _marked([column.header for column in columns]),
        "|" + "|".join(" :-- " if column.left else " --: " for column in columns) + "|",
        *(_marked(cells) for cells in rows),
    ]


def _total(columns: Sequence[Column]) -> int:
    return sum(column.width for column in columns) + len(GAP) * (len(columns) - 1)


def _line(cells: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> str:
    aligned = (column.aligned(cell, width) for cell, column, width in zip(cells, columns, widths, strict=True))
    return GAP.join(aligned).rstrip()


def _marked(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


FIGURE = re.compile(r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)")
SILENT = {NOTHING, "", "failed", "skipped"}  # in place of a figure
Part = tuple[int, float, str]


def order(cells: Sequence[str], *, reverse: bool = False) -> list[int]:
    """The places of the cells, sorted; equals stay as they were."""
    told = [place for place, cell in enumerate(cells) if cell not in SILENT]
    silent = [place for place, cell in enumerate(cells) if cell in SILENT]
    return sorted(told, key=lambda place: _parts(cells[place]), reverse=reverse) + silent


def _parts(cell: str) -> list[Part]:
    """Figures as numbers, and the words between them."""
    pieces = FIGURE.split(cell.casefold())
    return [(0, float(piece), "") if place % 2 else (1, 0.0, piece) for place, piece in enumerate(pieces) if piece]
