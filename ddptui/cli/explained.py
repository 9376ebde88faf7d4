"""Explains the columns of all tables; printed by `ddptui columns`."""

import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ddptui.projection.report import COLUMNS as PROJECTION_COLUMNS
from ddptui.report.columns import COLUMNS
from ddptui.report.primitive_tables import SIZE_COLUMNS
from ddptui.report.ranks import RANK_COLUMNS
from ddptui.text.tables import Column
from ddptui.text.words import did_you_mean

WIDTH = 100


TABLES: dict[str, tuple[Column[Any], ...]] = {
    "Columns that compare trials; a preset's `columns` takes their keys": COLUMNS,
    "Columns of the table of ranks; empty if not known": RANK_COLUMNS,
    "Columns of a primitive's sizes": SIZE_COLUMNS,
    "Columns of a projection": PROJECTION_COLUMNS,
}


def listing() -> str:
    """Returns the text of `ddptui columns`: each column's key, header and meaning."""
    return "\n".join(_sections(TABLES))


def entries(name: str) -> str:
    """Returns the text about the columns with this key or header. Raises LookupError, with the nearest spelling, if
    there are none."""
    found = {title: [*(one for one in columns if name.lower() in _names(one))] for title, columns in TABLES.items()}
    found = {title: columns for title, columns in found.items() if columns}
    if not found:
        known = sorted({known for columns in TABLES.values() for column in columns for known in _names(column)})
        hint = did_you_mean(name.lower(), known, "`ddptui columns` lists them")
        raise LookupError(f"no column {name!r}; {hint}")
    return "\n".join(_sections(found) if len(found) > 1 else [*_entries(*found.values()), ""])


def _sections(tables: Mapping[str, Iterable[Column[Any]]]) -> Iterator[str]:
    for title, columns in tables.items():
        yield from (f"{title}:", "", *_entries(columns), "")


def _names(column: Column[Any]) -> tuple[str, str]:
    return (column.key or column.header).lower(), column.header.lower()


def _entries(columns: Iterable[Column[Any]]) -> Iterator[str]:
    for column in columns:
        key = column.key or column.header
        yield key if key == column.header else f"{key}  ({column.header})"
        yield from textwrap.wrap(column.about, WIDTH, initial_indent="    ", subsequent_indent="    ")
