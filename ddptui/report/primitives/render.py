"""The results of primitives as terminal text, as Markdown and as CSV."""

from collections.abc import Iterator, Sequence
from textwrap import wrap

from ddptui.analysis.primitives.results import PrimitivesResult
from ddptui.analysis.results import Results, TrialResult
from ddptui.config.preset import Preset
from ddptui.report.exports import joined, values_of
from ddptui.report.notes import answer
from ddptui.report.primitives.sections import Block, Drawing, Heading, Notes, Plot, blocks
from ddptui.text import tables
from ddptui.text.door import style
from ddptui.text.drawing import Line, Span, width_of
from ddptui.text.tables import BOLD, DIM, RED, Table, styled

WIDE = 100  # columns of drawings in Markdown, where no terminal gives the width
SERIES = {f"series-{number}": style(color) for number, color in enumerate((36, 33, 32, 35, 31, 34))}  # ANSI colors
STYLES = SERIES | {"muted": DIM, "wrong": RED, "strong": BOLD}


def text(results: Results, preset: Preset, width: int, *, color: bool = False) -> str:
    """Grids, tables, models and what they mean. No line of a table is wider than `width`."""
    title, words = styled(preset.title, BOLD if color else ""), wrap(" ".join(answer(results)), width)
    return joined([[title], words, *(_as_text(block, width, color) for block in blocks(results, preset))])


def markdown(results: Results, preset: Preset) -> str:
    """The same as Markdown, with every column that has a value."""
    words = " ".join(answer(results))
    return joined([[f"## {preset.title}"], [words], *map(_as_markdown, blocks(results, preset))])


def _as_text(block: Block, width: int, color: bool) -> list[str]:
    match block:
        case Heading(words, level):
            return [styled(words, BOLD if color else ""), *(["─" * min(width, len(words))] if level < 4 else [])]
        case Notes(lines):
            return list(lines)
        case Drawing() | Plot():
            return [_drawn(line, width, color) for line in block.draw(width)]
        case Table():
            return tables.as_text(block, width, color=color)


def _as_markdown(block: Block) -> list[str]:
    match block:
        case Heading(words, level):
            return [f"{'#' * level} {words}"]
        case Notes(lines):
            return [f"- {line}" for line in lines]
        case Drawing() | Plot():
            return ["```text", *(_drawn(line, WIDE, False) for line in block.draw(WIDE)), "```"]
        case Table():
            return tables.as_markdown(block)


def _drawn(line: Line, width: int, color: bool) -> str:
    """A line as text, cut at `width`."""
    spans: list[Span] = list(line)
    while (over := width_of(spans) - width) > 0:
        words, kind = spans.pop()
        if len(words) > over:
            spans.append((words[: len(words) - over - 1] + "…", kind))
    return "".join(styled(words, STYLES.get(kind, "") if color else "") for words, kind in spans).rstrip()


Fields = dict[str, object]

# CSV column: where its value is in a launch, in a measured cell, and in a shown view. Scripts read these names.
LAUNCH = {name: name for name in ("ranks", "backend", "cadence")}
CELL = {
    **{name: name for name in ("operation", "composite", "reduce_op", "bytes", "calls")},
    **{f"{figure}_us": f"time_us.{figure}" for figure in ("min", "median", "mean", "p90", "p99")},
    **{name: name for name in ("cv", "algbw_gb_s", "busbw_gb_s", "wrong", "slowest", "slowest_us", "in_flight")},
}
VIEW = {name: name for name in ("operation", "reduce_op", "root")}
BUFFER = ("rank", "call", "buffer", "parts", "before", "after", "undefined")
# A column that cells and views share is named once, at its first place.
CSV = [*dict.fromkeys(["trial", "repeat", *LAUNCH, *CELL, *VIEW, *BUFFER, "status", "error"])]


def as_csv(results: Results) -> str:
    """A line for each measured cell of each launch; of primitives that were only shown, a line a buffer."""
    return tables.as_csv(CSV, (fields for trial in results.trials for fields in _of_trial(trial)))


def _of_trial(trial: TrialResult) -> Iterator[Fields]:
    for number, launch in enumerate(trial.primitives, start=1):
        common = {"trial": trial.name, "repeat": number, "status": trial.status} | values_of(launch, LAUNCH)
        yield from (common | fields for fields in _lines(launch))
    if not trial.primitives:  # so that a script sees why there is nothing
        yield {"trial": trial.name, "status": trial.status, "error": trial.error}


def _lines(launch: PrimitivesResult) -> Iterator[Fields]:
    for cell in launch.cells:
        yield values_of(cell, CELL) | {"error": cell.error}
    for view in launch.views:
        common = values_of(view, VIEW) | {"composite": False, "error": view.error}
        if view.error:  # a backend that refused has no ranks
            yield common
        for rank in view.ranks:
            for buffer in rank.buffers:
                before, after = _numbers(buffer.before), _numbers(buffer.after)
                values = (rank.rank, rank.call, buffer.name, buffer.parts, before, after, buffer.undefined)
                yield common | dict(zip(BUFFER, values, strict=True))


def _numbers(values: Sequence[float | None] | None) -> str | None:
    """The values, with spaces between them; None if there is no such buffer."""
    return None if values is None else " ".join("nan" if value is None else repr(value) for value in values)
