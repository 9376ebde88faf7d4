"""A comparison of two runs as terminal text, Markdown, CSV and JSON."""

from collections.abc import Callable

import msgspec

from ddptui.report.run_diff import Comparison
from ddptui.text import tables
from ddptui.text.door import ascii_json
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
    if rows(compared):
        notes = [f"- {note}" for note in compared.notes]
        lines += [*tables.as_markdown(compared.table), "", *notes, *[""] * bool(notes)]
    return "\n".join([*lines, f"{ELSE}:", "", *(f"- {line}" for line in in_words(compared))]) + "\n"


def in_words(compared: Comparison) -> list[str]:
    """What else differs, a line each, or that nothing does."""
    return [*compared.differences] or [NO_DIFFERENCE]


def rows(compared: Comparison) -> list[dict[str, object]]:
    """The figures of each row, by key."""
    return [dict(zip(compared.figures, row, strict=True)) for row in zip(*compared.figures.values(), strict=True)]


def as_csv(compared: Comparison) -> str:
    """A line a row, every figure in full."""
    return tables.as_csv([*compared.figures], rows(compared))


def as_json(compared: Comparison) -> str:
    """Everything, every figure in full. Scripts read these keys: add, never rename."""
    parts = {"a": compared.a, "b": compared.b, "answer": compared.answer}
    whole = parts | {"rows": rows(compared), "notes": compared.notes, "differences": compared.differences}
    return ascii_json(msgspec.json.format(msgspec.json.encode(whole), indent=2).decode()) + "\n"


FORMATS: dict[str, Callable[[Comparison], str]] = {"markdown": markdown, "csv": as_csv, "json": as_json}
