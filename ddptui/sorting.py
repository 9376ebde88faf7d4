"""Rows in the order of a column, read as a person reads it: 9 before 10, and last what says nothing. Pure."""

import re
from collections.abc import Sequence

from ddptui.columns import NOTHING

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
