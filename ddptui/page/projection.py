"""The page of a projection: its findings, a curve and a table for each strategy, and what it assumes."""

from itertools import groupby
from math import log2
from typing import NamedTuple

from ddptui.page.charts import Axis, Chart, Series, chart, frame_of
from ddptui.page.render import rendered
from ddptui.page.tables import TableView, table_view
from ddptui.projection import Point, Projection
from ddptui.projection.report import curves, in_full, name_of, title
from ddptui.projection.sentences import BAND, efficiency_note, ms
from ddptui.text.drawing import linear_ticks, log_ticks
from ddptui.text.words import sentence

MOST_TICKS = 6


class Strategy(NamedTuple):
    """One strategy: its curve, if there are several numbers of ranks, and its figures."""

    name: str
    chart: Chart | None
    table: TableView


def projection_page(projection: Projection) -> str:
    """The page."""
    by_strategy = groupby(projection.points, key=lambda point: point.strategy)
    efficiency = efficiency_note(projection.scaling, projection.measured_ranks)
    return rendered(
        "projection.html",
        title=title(projection),
        kicker=f"Projection of run {projection.run}; network: {projection.network.source}",
        answer=[*map(sentence, projection.said)],
        strategies=[_strategy([*points]) for _, points in by_strategy],
        reading=[efficiency, f"10…90 %: {BAND}", *projection.notes],
    )


def _strategy(points: list[Point]) -> Strategy:
    name = name_of(points[0])
    return Strategy(name, _curve(name, points), table_view(f"{name} by ranks", in_full(points).columns))


def _curve(name: str, points: list[Point]) -> Chart | None:
    drawn = curves(points)
    series = [Series("step", drawn.step, marks=drawn.measured, low=drawn.low, high=drawn.high)]
    within = frame_of(series)
    if within is None or len(points) < 2:
        return None
    ranks = [(log2(point.ranks), str(point.ranks)) for point in points]
    times = (log_ticks if drawn.is_log else linear_ticks)(within.low, within.high, MOST_TICKS)
    first, last = points[0], points[-1]
    about = f"{name}: {ms(first.step_ms)} ms on {first.ranks} ranks, {ms(last.step_ms)} ms on {last.ranks}"
    return chart("Step time over ranks", about, series, within, Axis("ranks", ranks), Axis("ms", times))
