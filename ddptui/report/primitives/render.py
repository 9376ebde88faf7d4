"""The results of primitives as terminal text and as Markdown; see csv.py for CSV."""

from collections.abc import Sequence

from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.report.primitives import grid
from ddptui.report.primitives.plot import draw
from ddptui.report.primitives.sections import Block, Heading, Notes, Plotted, Shown, blocks
from ddptui.text.drawing import Line, Span, width_of
from ddptui.text.tables import BOLD, DIM, RED, Table, as_markdown, as_text, styled

WIDE = 100  # of grids and plots in Markdown
PLOT_HEIGHT = 16
SERIES = {f"series-{number}": f"\x1b[{color}m" for number, color in enumerate((36, 33, 32, 35, 31, 34))}
STYLES = SERIES | {"muted": DIM, "wrong": RED, "strong": BOLD}


def text(results: Results, preset: Preset, width: int, *, color: bool = False) -> str:
    """Grids, tables, models and what they mean. No line of a table is wider than `width`."""
    lines = [styled(preset.title, BOLD if color else "")]
    for block in blocks(results, preset):
        lines += ["", *_as_text(block, width, color)]
    return "\n".join(lines) + "\n"


def markdown(results: Results, preset: Preset) -> str:
    """The same as Markdown, with every column that has a value."""
    lines = [f"## {preset.title}"]
    for block in blocks(results, preset):
        lines += ["", *_as_markdown(block)]
    return "\n".join(lines) + "\n"


def _as_text(block: Block, width: int, color: bool) -> list[str]:
    match block:
        case Heading(words, level):
            return [styled(words, BOLD if color else ""), *(["─" * min(width, len(words))] if level < 4 else [])]
        case Notes(lines):
            return list(lines)
        case Shown(view):
            return [_drawn(line, width, color) for line in grid.grid(view, width)]
        case Plotted(result, operations):
            return [_drawn(line, width, color) for line in draw(result, operations, width, PLOT_HEIGHT)]
        case Table():
            return as_text(block, width, color=color)


def _as_markdown(block: Block) -> list[str]:
    match block:
        case Heading(words, level):
            return [f"{'#' * level} {words}"]
        case Notes(lines):
            return [f"- {line}" for line in lines]
        case Shown(view):
            return _fenced(grid.grid(view, WIDE))
        case Plotted(result, operations):
            return _fenced(draw(result, operations, WIDE, PLOT_HEIGHT))
        case Table():
            return as_markdown(block)


def _fenced(lines: Sequence[Line]) -> list[str]:
    return ["```text", *(_drawn(line, WIDE, False) for line in lines), "```"]


def _drawn(line: Line, width: int, color: bool) -> str:
    """A line as text, cut at `width`."""
    spans: list[Span] = list(line)
    while (over := width_of(spans) - width) > 0:
        words, kind = spans.pop()
        if len(words) > over:
            spans.append((words[: len(words) - over - 1] + "…", kind))
    return "".join(styled(words, STYLES.get(kind, "") if color else "") for words, kind in spans).rstrip()
