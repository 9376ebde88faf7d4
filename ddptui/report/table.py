"""The comparison as terminal text, Markdown, CSV and JSON."""

from collections.abc import Callable

import msgspec

from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.report import csv
from ddptui.report.columns import AT_LEAST, columns_of, rows_of
from ddptui.report.notes import note_lines
from ddptui.report.primitives import csv as csv_of_primitives
from ddptui.report.primitives import render as primitives
from ddptui.text.tables import DIM, RED, Table, as_markdown, as_text

STYLES = {"failed": RED, "skipped": DIM}  # of a trial's row, by its status


def text(results: Results, preset: Preset, width: int, *, color: bool = False) -> str:
    """The table and its notes; no line of the table is wider than `width`."""
    if preset.kind == "primitives":
        return primitives.text(results, preset, width, color=color)
    lines = as_text(_table(results, preset), width, color=color)
    return "\n".join([preset.title, "", *lines, "", *note_lines(results, preset)]) + "\n"


def markdown(results: Results, preset: Preset) -> str:
    """Every column that has a value, as a Markdown table with its notes."""
    if preset.kind == "primitives":
        return primitives.markdown(results, preset)
    points = [f"- {line}" for line in note_lines(results, preset)]
    return "\n".join([f"## {preset.title}", "", *as_markdown(_table(results, preset)), "", *points]) + "\n"


def as_csv(results: Results, preset: Preset) -> str:
    """Every figure in full, for a spreadsheet or a script."""
    write = csv_of_primitives.as_csv if preset.kind == "primitives" else csv.as_csv
    return write(results, preset)


def as_json(results: Results, preset: Preset) -> str:
    """results.json."""
    return msgspec.json.format(msgspec.json.encode(results), indent=2).decode() + "\n"


FORMATS: dict[str, Callable[[Results, Preset], str]] = {"markdown": markdown, "csv": as_csv, "json": as_json}


def _table(results: Results, preset: Preset) -> Table:
    rows = rows_of(results, preset)
    styles = {place: STYLES[row.result.status] for place, row in enumerate(rows) if row.result.status in STYLES}
    return Table(columns_of(rows), styles, AT_LEAST)
