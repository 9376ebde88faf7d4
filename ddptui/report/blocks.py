"""The blocks of a report, and their rendering as text and Markdown. The HTML report renders the same blocks."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from ddptui.analysis.finding import Kind
from ddptui.analysis.primitive_results import PrimitiveKey, PrimitivesResult
from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.report.notes import answer
from ddptui.report.primitives.plot import draw
from ddptui.text import tables
from ddptui.text.drawing import Line, Span, cell_len, cut, paragraph, width_of
from ddptui.text.sanitize import style
from ddptui.text.tables import BOLD, DIM, RED, Table, styled
from ddptui.text.words import in_a_row

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
