"""A projection as terminal text, Markdown, CSV and JSON. Pure."""

from collections.abc import Callable, Sequence

import msgspec

from ddptui.projection.plot import plot
from ddptui.projection.results import Point, Projection
from ddptui.projection.sentences import BAND, efficiency_note, ms, percent
from ddptui.text import tables
from ddptui.text.tables import Column, Filled, Table, as_markdown, as_text, fill, total
from ddptui.text.units import NOTHING

PLOT_HEIGHT, PLOT_WIDTH = 12, 100
MOST_IN_FULL = 2  # strategies
ROUGH = "~"


COLUMNS: tuple[Column[Point], ...] = (
    Column("ranks", lambda point: str(point.ranks), 10),
    Column("step ms", lambda point: ms(point.step_ms), 9),
    Column("10…90 %", lambda point: NOTHING if point.low_ms is None else f"{ms(point.low_ms)}…{ms(point.high_ms)}", 2),
    Column("work", lambda point: ms(point.work_ms), 3),
    Column("wait", lambda point: ms(point.wait_ms), 5),
    Column("transfer", lambda point: ms(point.transfer_ms), 1),
    Column("exposed", lambda point: ms(point.exposed_ms), 4),
    Column("efficiency", lambda point: percent(point.efficiency, 1), 8),
    Column("measured", lambda point: ms(point.measured_ms), 7),
    Column("error", lambda point: NOTHING if point.error is None else f"{point.error:+.1%}", 6),
)


def text(projection: Projection, width: int) -> str:
    """The first strategy in full and plotted, all strategies side by side, then findings and notes."""
    strategies = list(dict.fromkeys(point.strategy for point in projection.points))
    lines = [title(projection), ""]
    for strategy in strategies if len(strategies) <= MOST_IN_FULL else strategies[:1]:
        lines += _in_full(of_strategy(projection, strategy), _efficiency(projection), width)
    if len(strategies) > 1:
        lines += ["step ms by strategy and ranks", *as_text(side_by_side(projection, width), width, rule=False), ""]
    return "\n".join([*lines, *projection.said, "", *projection.notes]) + "\n"


def _in_full(points: Sequence[Point], below: str, width: int) -> list[str]:
    drawn = plot(points, min(width, PLOT_WIDTH), PLOT_HEIGHT)
    marks = "; ×: measured" if any(point.measured_ms is not None for point in points) else ""
    band = points[0].low_ms is not None
    dots = "; dots: its band, 10 to 90 %" if band else ""
    legend = [f"line: step{dots}{marks}", *([f"the band: {BAND}"] if band else []), ""] if drawn else []
    return [_name(points[0]), *as_text(in_full(points), width, rule=False), below, "", *drawn, *legend]


def _efficiency(projection: Projection) -> str:
    return efficiency_note(projection.scaling, projection.measured_ranks)


def markdown(projection: Projection) -> str:
    """All strategies in full, as a Markdown section."""
    names = Filled("strategy", [_name(point) for point in projection.points], left=True)
    table = as_markdown(Table([names, *fill(COLUMNS, projection.points)]))
    said = (*projection.said, _efficiency(projection), *_band(projection), *projection.notes)
    points = [f"- {sentence}" for sentence in said]
    return "\n".join([f"## {title(projection)}", "", *table, "", *points]) + "\n"


def _band(projection: Projection) -> list[str]:
    return [f"10…90 %: {BAND}"] if projection.points[0].low_ms is not None else []


def as_csv(projection: Projection) -> str:
    """A line for each strategy and number of ranks, figures unrounded."""
    common = {"run": projection.run, "trial": projection.trial, "scaling": projection.scaling}
    rows = (common | msgspec.structs.asdict(point) for point in projection.points)
    return tables.as_csv([*common, *Point.__struct_fields__], rows)


def as_json(projection: Projection) -> str:
    return msgspec.json.format(msgspec.json.encode(projection), indent=2).decode() + "\n"


def title(projection: Projection) -> str:
    what = f"{projection.trial} of {projection.run}, measured on {projection.measured_ranks} ranks"
    return f"{what}, on others: {projection.scaling} scaling"


def of_strategy(projection: Projection, strategy: str) -> list[Point]:
    return [point for point in projection.points if point.strategy == strategy]


def in_full(points: Sequence[Point]) -> Table:
    """The table of one strategy: a row a number of ranks."""
    return Table(fill(COLUMNS, points))


def side_by_side(projection: Projection, width: int) -> Table:
    """Step times with a row a strategy and a column a number of ranks: as many as fit, always the last one."""
    strategies = list(dict.fromkeys(point.strategy for point in projection.points))
    names = {point.strategy: _name(point) for point in projection.points}
    ranks = [point.ranks for point in of_strategy(projection, strategies[0])]
    step = {(point.strategy, point.ranks): ms(point.step_ms) for point in projection.points}
    for every in range(1, len(ranks) + 1):
        columns = [
            Filled("", [names[strategy] for strategy in strategies], left=True),
            *(
                Filled(str(number), [step[strategy, number] for strategy in strategies])
                for number in ranks[::-1][::every][::-1]
            ),
        ]
        if total([column.width for column in columns]) <= width:
            break
    return Table(columns, at_least=len(columns))


def _name(point: Point) -> str:
    return f"{point.strategy} {ROUGH}" if point.rough else point.strategy


FORMATS: dict[str, Callable[[Projection], str]] = {"markdown": markdown, "csv": as_csv, "json": as_json}
