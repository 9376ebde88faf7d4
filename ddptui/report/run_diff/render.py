"""A comparison of two runs as terminal text, Markdown, CSV and JSON."""

from collections.abc import Callable

from ddptui.report.exports import json_text
from ddptui.report.run_diff import Comparison
from ddptui.text import tables
from ddptui.text.tables import BOLD, styled

ELSE = "What else differs"
NO_DIFFERENCE = "nothing: same trials, same fields, same machine, same load"


def text(compared: Comparison, width: int, *, color: bool = False) -> str:
    """The answer, the table, and what else differs. No line of the table is wider than `width`."""
    bold = BOLD if color else ""
    lines = [styled(compared.answer, bold), "", f"A: {compared.a}", f"B: {compared.b}", ""]
    if table := tables.as_text(compared.table, width, color=color):
        lines += [*table, "", *compared.notes, *[""] * bool(compared.notes)]
    return "\n".join([*lines, styled(f"{ELSE}:", bold), *in_words(compared)]) + "\n"


def markdown(compared: Comparison) -> str:
    """The same, and every column that has a value."""
    lines = [compared.answer, "", f"- A: {compared.a}", f"- B: {compared.b}", ""]
    if compared.rows:
        notes = [f"- {note}" for note in compared.notes]
        lines += [*tables.as_markdown(compared.table), "", *notes, *[""] * bool(notes)]
    return "\n".join([*lines, f"{ELSE}:", "", *(f"- {line}" for line in in_words(compared))]) + "\n"


def in_words(compared: Comparison) -> list[str]:
    """What else differs, a line each, or that nothing does."""
    return [*compared.differences] or [NO_DIFFERENCE]


def as_csv(compared: Comparison) -> str:
    """A line a row, every figure in full."""
    return tables.as_csv(compared.keys, compared.rows)


def as_json(compared: Comparison) -> str:
    """Everything, every figure in full. Scripts read these keys: add, never rename."""
    parts = {"a": compared.a, "b": compared.b, "answer": compared.answer}
    whole = parts | {"rows": compared.rows, "notes": compared.notes, "differences": compared.differences}
    return json_text(whole)


FORMATS: dict[str, Callable[[Comparison], str]] = {"markdown": markdown, "csv": as_csv, "json": as_json}
