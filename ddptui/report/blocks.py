"""The blocks of a report, and their rendering as text and Markdown; plots of time or bandwidth over message size.

The HTML report renders the same blocks.
"""

from collections.abc import Callable, Iterable, Sequence
from math import log2, log10
from string import ascii_lowercase
from typing import Literal, NamedTuple

from ddptui.analysis.finding import Kind
from ddptui.analysis.primitive_results import PrimitiveKey, PrimitivesResult, by_operation
from ddptui.analysis.results import Results
from ddptui.config.catalog import primitive_facts
from ddptui.config.preset import Preset
from ddptui.report.notes import answer
from ddptui.text import tables
from ddptui.text.drawing import (
    Frame,
    Line,
    Point,
    Span,
    beside_axis,
    cell_len,
    column_of,
    cut,
    frame,
    labels_of,
    log_ticks,
    paragraph,
    row_of,
    series_kind,
    signs_of,
    width_of,
    wrap,
)
from ddptui.text.sanitize import style
from ddptui.text.tables import BOLD, DIM, RED, Table, styled
from ddptui.text.words import US_IN_S, in_a_row, seconds, size

What = Literal["time", "busbw"]
TITLES: dict[What, str] = {"time": "time", "busbw": "bus bandwidth, GB/s"}
SEVERAL = "*"
ROWS_A_TICK = 2
LEGEND_ROWS = 3  # at most


class Drawn(NamedTuple):
    """One operation: its letter and color, and the measured points."""

    which: PrimitiveKey
    sign: Span
    points: Sequence[Point]


def draw(
    result: PrimitivesResult, operations: Sequence[PrimitiveKey], width: int, height: int, what: What = "time"
) -> list[Line]:
    """The lines of the plot, with the legend at the end: at most `height` lines of at most `width` cells."""
    series = series_of(result, operations, what)
    bounds = frame(drawn.points for drawn in series)
    entries: list[Line] = [[drawn.sign, (f" {drawn.which}", "")] for drawn in series]
    legend = wrap([*entries, [(TITLES[what], "muted")]], width, min(LEGEND_ROWS, max(1, height // 5)))
    rows = height - len(legend) - 1  # one line is for the sizes
    if bounds is None or rows < 1:
        return [[("nothing to plot: no size was measured", "muted")]] if bounds is None else legend
    ticks = [tick for tick, _ in log_ticks(bounds.low, bounds.high, max(1, rows // ROWS_A_TICK))]
    named = [(tick, seconds(10**tick) if what == "time" else f"{10**tick:.3g}") for tick in ticks]
    labels = labels_of(named, bounds, rows)
    left = max(map(len, labels.values()), default=0) + 1
    across = max(1, width - left)
    signs = signs_of([(drawn.points, drawn.sign[1]) for drawn in series], bounds, across, rows)
    for (row, column), sign in _letters(series, bounds, across, rows).items():
        signs[row][column] = sign
    return [*beside_axis(signs, labels), [(" " * left + _sizes(bounds, across), "muted")], *legend]


def series_of(result: PrimitivesResult, operations: Sequence[PrimitiveKey], what: What = "time") -> list[Drawn]:
    """The operations that have measured sizes, in the given order, with their points. x is log2 of bytes; y is log10 of
    seconds, or of GB/s (1e9 bytes, as in nccl-tests)."""
    groups = by_operation(result.cells)
    series: list[Drawn] = []
    for key in operations:
        factor = primitive_facts(key.operation, composite=key.composite).factor(result.ranks)
        points: list[Point] = []
        for cell in groups.get(key, []):
            if cell.bytes and cell.time_us and cell.time_us.median > 0:  # 0 has no place on a logarithmic axis
                s = cell.time_us.median * US_IN_S
                points.append((log2(cell.bytes), log10(s if what == "time" else cell.bytes * factor / s / 1e9)))
        if points:
            sign = (ascii_lowercase[len(series) % len(ascii_lowercase)], series_kind(len(series)))
            series.append(Drawn(key, sign, points))
    return series


def _letters(series: Sequence[Drawn], bounds: Frame, width: int, rows: int) -> dict[tuple[int, int], Span]:
    """The letters of the operations by row and column of their points; SEVERAL where points coincide."""
    letters: dict[tuple[int, int], Span] = {}
    for drawn in series:
        for x, y in drawn.points:
            place = row_of(y or 0.0, bounds, rows), column_of(x, bounds, width)
            letters[place] = drawn.sign if letters.get(place, drawn.sign) == drawn.sign else (SEVERAL, "strong")
    return letters


def _sizes(bounds: Frame, width: int) -> str:
    """The horizontal axis: the last size at the end, and the others at their places as far as there is room."""
    axis, last = "", size(2**bounds.right)
    for power in range(round(bounds.left), round(bounds.right)):
        at = round((power - bounds.left) / (bounds.right - bounds.left) * (width - 1))
        label = size(2**power)
        if len(axis) <= at and at + len(label) + 2 <= width - len(last):
            axis = axis.ljust(at) + label + "  "
    return axis.ljust(width - len(last)) + last


WIDE = 100  # width of drawings in Markdown, which has no terminal width
PLOT_HEIGHT = 16  # lines
COLORS = (36, 33, 32, 35, 31, 34)  # ANSI
STYLES = {f"series-{number}": style(color) for number, color in enumerate(COLORS)}
STYLES |= {"muted": DIM, "undefined": DIM, "wrong": RED, "strong": BOLD, "reduced": BOLD}
STYLES |= {f"rank-{number}": style(COLORS[number % 4]) for number in range(8)}  # as many as in the console


class Heading(NamedTuple):
    """A heading. level: as in Markdown; in text, headings of levels 1 to 3 are underlined."""

    words: str
    level: int = 4


class Notes(NamedTuple):
    """Sentences, one per line. Empty ones are left out."""

    lines: Sequence[str]


class Quote(NamedTuple):
    """What the user wrote: indented, or quoted in Markdown."""

    words: str


class Drawing(NamedTuple):
    """A drawing. `draw` returns its lines for a width in terminal cells."""

    draw: Callable[[int], Sequence[Line]]


class Plot(NamedTuple):
    """A plot of the times of some operations over message sizes."""

    result: PrimitivesResult
    operations: Sequence[PrimitiveKey]

    def draw(self, width: int) -> Sequence[Line]:
        """The lines of the plot for a width in terminal cells."""
        return draw(self.result, self.operations, width, PLOT_HEIGHT)


Block = Heading | Notes | Quote | Drawing | Plot | Table


def as_text(results: Results, preset: Preset, blocks: Iterable[Block], width: int, *, color: bool = False) -> str:
    """The question, its answer and the blocks as text for a terminal. Tables and drawings fit into `width` columns."""
    title = [styled(line, BOLD if color else "") for line in paragraph(preset.localized_title, width)]
    words = paragraph(in_a_row(answer(results), "."), width)
    head = [words, title] if has_only_failed(results) else [title, words]  # a failure comes first
    return joined([*head, *(_in_text(block, width, color) for block in blocks)])


def has_only_failed(results: Results) -> bool:
    """Whether the answer is the first cause of the failure of the only trial."""
    return any(finding.kind is Kind.FAILED and finding.place for finding in results.findings)


def as_markdown(results: Results, preset: Preset, blocks: Iterable[Block]) -> str:
    """The question, its answer and the blocks as Markdown. Tables show every column that has a value."""
    words = in_a_row(answer(results), ".")
    return joined([[f"## {preset.localized_title}"], [words], *map(in_markdown, blocks)])


def _in_text(block: Block, width: int, color: bool) -> list[str]:
    match block:
        case Heading(words, level):
            return [styled(words, BOLD if color else ""), *(["─" * min(width, cell_len(words))] if level < 4 else [])]
        case Notes(lines):
            return [line for line in lines if line]
        case Quote(words):
            return [f"  {line}".rstrip() for line in words.splitlines()]
        case Drawing() | Plot():
            return [_drawn(line, width, color) for line in block.draw(width)]
        case Table():
            return tables.as_text(block, width, color=color)


def in_markdown(block: Block) -> list[str]:
    """The lines of a block as Markdown; none if it has nothing to show."""
    match block:
        case Heading(words, level):
            return [f"{'#' * level} {words}"]
        case Notes(lines):
            return [f"- {line}" for line in lines if line]
        case Quote(words):
            return [f"> {line}".rstrip() for line in words.splitlines()]
        case Drawing() | Plot():
            return ["```text", *(_drawn(line, WIDE, False) for line in block.draw(WIDE)), "```"]
        case Table():
            return tables.as_markdown(block)


def _drawn(line: Line, width: int, color: bool) -> str:
    """A line as text, cut at `width`."""
    spans: list[Span] = list(line)
    while (over := width_of(spans) - width) > 0:
        words, kind = spans.pop()
        if (fits := cell_len(words) - over) > 0:
            spans.append((cut(words, fits - 1) + "…", kind))
    return "".join(styled(words, STYLES.get(kind, "") if color else "") for words, kind in spans).rstrip()


def joined(blocks: Iterable[Sequence[str]]) -> str:
    """The blocks that have text, separated by empty lines."""
    return "\n\n".join("\n".join(lines) for lines in blocks if any(lines)) + "\n"
