"""What the columns show, in words: those of the table of trials and those of the table of ranks."""

import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

from ddptui.report.columns import COLUMNS
from ddptui.report.ranks import RANK_COLUMNS
from ddptui.text.tables import Column
from ddptui.text.words import did_you_mean

WIDTH = 100
TABLES: dict[str, tuple[Column[Any], ...]] = {
    "Columns that compare trials; a preset's `columns` takes their keys": COLUMNS,
    "Columns of the table of ranks": RANK_COLUMNS,
}


def listing() -> str:
    """Every column with its key, its header and its meaning, as `ddptui columns` prints it."""
    return "\n".join(line for title, columns in TABLES.items() for line in (f"{title}:", "", *_entries(columns), ""))


def entries(name: str) -> str:
    """The columns of this key or header. Raises LookupError, with the nearest spelling, if there is none."""
    found = [column for columns in TABLES.values() for column in columns if name.lower() in _names(column)]
    if not found:
        known = sorted({known for columns in TABLES.values() for column in columns for known in _names(column)})
        hint = did_you_mean(name.lower(), known, "`ddptui columns` lists them")
        raise LookupError(f"no column {name!r}; {hint}")
    return "\n".join(_entries(found)) + "\n"


def _names(column: Column[Any]) -> tuple[str, str]:
    return (column.key or column.header).lower(), column.header.lower()


def _entries(columns: Iterable[Column[Any]]) -> Iterator[str]:
    for column in columns:
        key = column.key or column.header
        yield key if key == column.header else f"{key}  ({column.header})"
        yield from textwrap.wrap(column.about, WIDTH, initial_indent="    ", subsequent_indent="    ")
