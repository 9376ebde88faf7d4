"""The page of a run of primitives: the same blocks as in text and Markdown, with sortable tables and zoomable plots."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.page.charts import Axis, Chart, Series, chart, frame_of
from ddptui.page.made import how_it_was_made, kicker
from ddptui.page.render import rendered
from ddptui.page.tables import TableView, table_view
from ddptui.report.blocks import Block, Drawing, Heading, Notes, Plot
from ddptui.report.notes import answer
from ddptui.report.primitives.plot import series_of
from ddptui.report.primitives.report import blocks
from ddptui.text.drawing import Line, log_ticks
from ddptui.text.tables import Table
from ddptui.text.units import seconds, size

GRID_WIDTH = 100  # columns of text in a grid of buffers
MOST_SIZES, MOST_TIMES = 8, 6  # ticks on each axis
DRAWN = "Time over size: measured medians as points, joined by lines. Both axes are logarithmic."


class Part(NamedTuple):
    """A block of the page; one of the fields is set."""

    heading: str = ""
    level: int = 0
    notes: list[str] | None = None
    grid: Sequence[Line] | None = None
    table: TableView | None = None
    chart: Chart | None = None


def primitives_page(preset: Preset, results: Results) -> str:
    """Renders a run of primitives as HTML."""
    return rendered(
        "primitives.html",
        title=preset.title,
        kicker=kicker(results),
        answer=answer(results),
        parts_of_page=[*_parts(results, preset)],
        **how_it_was_made(preset, results),
    )


def times_chart(plot: Plot) -> Chart | None:
    """Draws a plot as a chart; None if none of its operations was measured."""
    drawn = series_of(plot.result, plot.operations)
    series = [Series(str(each.which), each.points, marks=each.points) for each in drawn]
    within = frame_of(series)
    if within is None:
        return None
    every = max(1, round((within.right - within.left) / MOST_SIZES))
    sizes = [(power, size(2**power)) for power in range(round(within.left), round(within.right) + 1, every)]
    times = [(tick, seconds(10**tick)) for tick, _ in log_ticks(within.low, within.high, MOST_TIMES)]
    return chart("Time over size", DRAWN, series, within, Axis("size", sizes), Axis("time", times))


def _parts(results: Results, preset: Preset) -> Iterator[Part]:
    heading = preset.title
    for block in blocks(results, preset):
        if isinstance(block, Heading):
            heading = block.words
        yield _part(block, heading)


def _part(block: Block, heading: str) -> Part:
    match block:
        case Heading(words, level):
            return Part(words, level - 1)  # headings are one level below the page's title
        case Notes(lines):
            return Part(notes=[line for line in lines if line])
        case Drawing(draw):
            return Part(grid=draw(GRID_WIDTH))
        case Plot():
            return Part(chart=times_chart(block))
        case Table(columns):
            return Part(table=table_view(heading, columns))
