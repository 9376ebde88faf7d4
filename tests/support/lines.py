"""Counts code lines: those without blanks, docstrings, comments and imports. So squeezing prose gains nothing."""

import ast
import io
import tokenize
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

PROSE = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER,
}  # fmt: skip
SLACK = 25  # lines that a room may stay below its budget
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def code_lines(source: str) -> int:
    """Return the number of code lines of a Python file."""
    lines = {
        line
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type not in PROSE
        for line in range(token.start[0], token.end[0] + 1)
    }
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            node = node.body[0]
        elif not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        lines -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def over_budget(rooms: Mapping[str, int], budgets: Mapping[str, int]) -> list[str]:
    """Return a line for each room over its budget, and for each that is so far below that the budget can be lowered."""
    found = []
    for room, lines in sorted(rooms.items()):
        if room not in budgets:
            found.append(f"{room}: {lines} code lines, and no budget")
        elif lines > budgets[room]:
            found.append(f"{room}: {lines} code lines, {lines - budgets[room]} over its budget")
        elif lines + SLACK < budgets[room]:
            found.append(f"{room}: {lines} code lines: lower its budget of {budgets[room]}")
    return found


def by_room(root: Path) -> Counter[str]:
    """Return the code lines of each room of ddptui/, of workers/, and of all templates, styles and scripts."""
    rooms: Counter[str] = Counter()
    for path in [*(root / "ddptui").rglob("*"), *(root / "workers").rglob("*")]:
        package, room, *_ = path.relative_to(root).parts
        if room == "_lab" or "__pycache__" in path.parts or "datasets" in path.parts or not path.is_file():
            continue
        text = path.read_text(encoding="utf-8")
        if package == "ddptui" and room.startswith("__"):
            continue  # two lines
        if path.suffix == ".py":
            rooms[package if package == "workers" else room.removesuffix(".py")] += code_lines(text)
        else:
            rooms["templates"] += sum(bool(line.strip()) for line in text.splitlines())
    return rooms
