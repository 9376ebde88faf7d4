"""The page of a projection: its findings, a curve and a table for each strategy, and the assumptions."""

from itertools import groupby
from math import log2, log10

from ddptui.page.charts import Axis, Chart, Series, curves
from ddptui.page.pages import table_view
from ddptui.page.render import rendered
from ddptui.projection import Point, Projection
from ddptui.projection.report import in_full, title
from ddptui.text.drawing import linear_ticks, log_ticks
from ddptui.text.units import digits
from ddptui.text.words import sentence

WIDE = 20.0  # ratio of the largest to the smallest value above which the axis is logarithmic


def projection_page(projection: Projection) -> str:
    """Renders a projection as HTML."""
    by_strategy = {name: [*same] for name, same in groupby(projection.points, key=lambda point: point.strategy)}
    return rendered(
        "projection.html",
        title=title(projection),
        kicker=f"Projection of run {projection.run}; network: {projection.network.source}",
        answer=[*map(sentence, projection.said)],
        strategies=[
            (name, _curve(name, points), table_view(f"{name} by ranks", in_full(points).columns))
            for name, points in by_strategy.items()
        ],
        reading=projection.notes,
    )


def _curve(name: str, points: list[Point]) -> list[Chart]:
    """The step time over ranks; no chart with a single number of ranks."""
    if len(points) < 2:
        return []
    steps = [point.step_ms for point in points]
    is_log = max(steps) > WIDE * min(steps)

    def place(point: Point, ms: float) -> tuple[float, float]:
        return log2(point.ranks), log10(ms) if is_log else ms

    measured = [place(point, point.measured_ms) for point in points if point.measured_ms]
    first, last = points[0], points[-1]
    ends = f"{digits(first.step_ms)} ms on {first.ranks} ranks, {digits(last.step_ms)} ms on {last.ranks}"
    series = [Series(name, [place(point, point.step_ms) for point in points], ends, measured)]
    ranks = Axis("ranks", lambda *_: [(log2(point.ranks), str(point.ranks)) for point in points])
    times = Axis("ms", log_ticks if is_log else linear_ticks)
    return curves("Step time over ranks", series, ranks, times)
