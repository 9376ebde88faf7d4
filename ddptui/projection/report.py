"""A projection as terminal text, Markdown, CSV and JSON. Pure."""

import csv
import io
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from ddptui.projection.plot import plot
from ddptui.projection.results import Point, Projection
from ddptui.projection.sentences import BAND, ms, of_efficiency, percent
from ddptui.report.columns import GAP
from ddptui.text.units import NOTHING

PLOT_HEIGHT, PLOT_WIDTH = 12, 100
MOST_IN_FULL = 2  # strategies
FIRST_TO_GO = ("transfer", "10…90 %", "work", "exposed", "wait")  # where a line is too short
FIELDS = Point.__struct_fields__
ROUGH = "~"


class Column(NamedTuple):
    header: str
    cell: Callable[[Point], str]


COLUMNS = (
    Column("ranks", lambda point: str(point.ranks)),
    Column("step ms", lambda point: ms(point.step_ms)),
    Column("10…90 %", lambda point: NOTHING if point.low_ms is None else f"{ms(point.low_ms)}…{ms(point.high_ms)}"),
    Column("work", lambda point: ms(point.work_ms)),
    Column("wait", lambda point: ms(point.wait_ms)),
    Column("transfer", lambda point: ms(point.transfer_ms)),
    Column("exposed", lambda point: ms(point.exposed_ms)),
    Column("efficiency", lambda point: percent(point.efficiency, 1)),
    Column("measured", lambda point: ms(point.measured_ms)),
    Column("error", lambda point: NOTHING if point.error is None else f"{point.error:+.1%}"),
)


def text(projection: Projection, width: int) -> str:
    """The first strategy in full and drawn, all of them side by side, and what there is to say."""
    strategies = list(dict.fromkeys(point.strategy for point in projection.points))
    lines = [title(projection), ""]
    for strategy in strategies if len(strategies) <= MOST_IN_FULL else strategies[:1]:
        lines += _in_full(of_strategy(projection, strategy), _efficiency(projection), width)
    if len(strategies) > 1:
        lines += ["step ms by strategy and ranks", *aligned(side_by_side(projection, width), left=1), ""]
    return "\n".join([*lines, *projection.said, "", *projection.notes]) + "\n"


def _in_full(points: Sequence[Point], below: str, width: int) -> list[str]:
    drawn = plot(points, min(width, PLOT_WIDTH), PLOT_HEIGHT)
    marks = "; ×: measured" if any(point.measured_ms is not None for point in points) else ""
    band = points[0].low_ms is not None
    dots = "; dots: its band, 10 to 90 %" if band else ""
    legend = [f"line: step{dots}{marks}", *([f"the band: {BAND}"] if band else []), ""] if drawn else []
    return [_name(points[0]), *aligned(fitting(points, width)), below, "", *drawn, *legend]


def _efficiency(projection: Projection) -> str:
    return of_efficiency(projection.scaling, projection.measured_ranks)


def markdown(projection: Projection) -> str:
    """All strategies in full."""
    header = ["strategy", *(column.header for column in COLUMNS)]
    rows = [[_name(point), *(column.cell(point) for column in COLUMNS)] for point in projection.points]
    lines = [f"| {' | '.join(cells)} |" for cells in [header, [":--", *["--:"] * len(COLUMNS)], *rows]]
    said = (*projection.said, _efficiency(projection), *_band(projection), *projection.notes)
    points = [f"- {sentence}" for sentence in said]
    return "\n".join([f"## {title(projection)}", "", *lines, "", *points]) + "\n"


def _band(projection: Projection) -> list[str]:
    return [f"10…90 %: {BAND}"] if projection.points[0].low_ms is not None else []


def as_csv(projection: Projection) -> str:
    """A line a strategy and number of ranks, every figure in full."""
    output = io.StringIO()
    writer = csv.writer(output, lineterminator="\n")
    writer.writerow(["run", "trial", "scaling", *FIELDS])
    for point in projection.points:
        figures = [getattr(point, field) for field in FIELDS]
        writer.writerow([projection.run, projection.trial, projection.scaling, *figures])
    return output.getvalue()


def as_json(projection: Projection) -> str:
    return msgspec.json.format(msgspec.json.encode(projection), indent=2).decode() + "\n"


def title(projection: Projection) -> str:
    what = f"{projection.trial} of {projection.run}, measured on {projection.measured_ranks} ranks"
    return f"{what}, on others: {projection.scaling} scaling"


def of_strategy(projection: Projection, strategy: str) -> list[Point]:
    return [point for point in projection.points if point.strategy == strategy]


def fitting(points: Sequence[Point], width: int) -> list[list[str]]:
    """The table of one strategy, header first, without the columns for which there is no room, or nothing to say."""
    kept = [column for column in COLUMNS if any(column.cell(point) != NOTHING for point in points)]
    for header in (None, *FIRST_TO_GO):
        kept = [column for column in kept if column.header != header]
        cells = [[column.header for column in kept], *([column.cell(point) for column in kept] for point in points)]
        if max(map(len, aligned(cells))) <= width:
            break
    return cells


def side_by_side(projection: Projection, width: int) -> list[list[str]]:
    """A row a strategy; of the numbers of ranks, as many as there is room for, the last one always."""
    strategies = list(dict.fromkeys(point.strategy for point in projection.points))
    names = {point.strategy: _name(point) for point in projection.points}
    ranks = [point.ranks for point in of_strategy(projection, strategies[0])]
    step = {(point.strategy, point.ranks): ms(point.step_ms) for point in projection.points}
    for every in range(1, len(ranks) + 1):
        shown = ranks[::-1][::every][::-1]
        cells = [
            ["", *map(str, shown)],
            *([names[strategy], *(step[strategy, number] for number in shown)] for strategy in strategies),
        ]
        if max(map(len, aligned(cells, left=1))) <= width:
            break
    return cells


def _name(point: Point) -> str:
    return f"{point.strategy} {ROUGH}" if point.rough else point.strategy


def aligned(cells: Sequence[Sequence[str]], left: int = 0) -> list[str]:
    """Columns to the right, but for the first few."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        (" " * GAP)
        .join(
            f"{cell:<{wide}}" if at < left else f"{cell:>{wide}}"
            for at, (cell, wide) in enumerate(zip(row, widths, strict=True))
        )
        .rstrip()
        for row in cells
    ]


FORMATS: dict[str, Callable[[Projection], str]] = {"markdown": markdown, "csv": as_csv, "json": as_json}
