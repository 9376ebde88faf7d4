"""The page of a projection: its findings, a curve and a table for each strategy, and the assumptions."""

from itertools import groupby
from math import log2, log10

from ddptui.page.charts import Axis, Chart, Series, chart, frame_of
from ddptui.page.render import rendered
from ddptui.page.tables import TableView, table_view
from ddptui.projection import Point, Projection
from ddptui.projection.report import in_full, title
from ddptui.text.drawing import linear_ticks, log_ticks
from ddptui.text.units import digits
from ddptui.text.words import sentence

MOST_TICKS = 6
WIDE = 20.0  # ratio of the largest to the smallest value above which the axis is logarithmic


def projection_page(projection: Projection) -> str:
    """Renders a projection as HTML."""
    by_strategy = groupby(projection.points, key=lambda point: point.strategy)
    return rendered(
        "projection.html",
        title=title(projection),
        kicker=f"Projection of run {projection.run}; network: {projection.network.source}",
        answer=[*map(sentence, projection.said)],
        strategies=[_strategy(name, [*points]) for name, points in by_strategy],
        reading=projection.notes,
    )


def _strategy(name: str, points: list[Point]) -> tuple[str, Chart | None, TableView]:
    """A strategy's name, its curve (None with a single number of ranks), and its table."""
    return name, _curve(name, points), table_view(f"{name} by ranks", in_full(points).columns)


def _curve(name: str, points: list[Point]) -> Chart | None:
    steps = [point.step_ms for point in points]
    is_log = max(steps) > WIDE * min(steps)

    def place(point: Point, ms: float) -> tuple[float, float]:
        return log2(point.ranks), log10(ms) if is_log else ms

    measured = [place(point, point.measured_ms) for point in points if point.measured_ms]
    series = [Series("step", [place(point, point.step_ms) for point in points], marks=measured)]
    within = frame_of(series)
    if within is None or len(points) < 2:
        return None
    ranks = [(log2(point.ranks), str(point.ranks)) for point in points]
    times = (log_ticks if is_log else linear_ticks)(within.low, within.high, MOST_TICKS)
    first, last = points[0], points[-1]
    about = f"{name}: {digits(first.step_ms)} ms on {first.ranks} ranks, {digits(last.step_ms)} ms on {last.ranks}"
    return chart("Step time over ranks", about, series, within, Axis("ranks", ranks), Axis("ms", times))
