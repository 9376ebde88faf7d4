"""The page of a projection: its findings, a curve and a table for each strategy, and the assumptions."""

from itertools import groupby
from math import log2

from ddptui.page.charts import Axis, Chart, Series, curves
from ddptui.page.pages import table_view
from ddptui.page.render import rendered
from ddptui.projection import Point, Projection
from ddptui.projection.report import in_full, title
from ddptui.text.drawing import linear_ticks
from ddptui.text.words import sentence


def projection_page(projection: Projection) -> str:
    """Renders a projection as HTML."""
    return rendered(
        "projection.html",
        title=title(projection),
        kicker=f"Projection of run {projection.run}; network: {projection.network.source}",
        answer=[*map(sentence, projection.said)],
        strategies=[
            (name, _curve(name, points := [*same]), table_view(f"{name} by ranks", in_full(points).columns))
            for name, same in groupby(projection.points, key=lambda point: point.strategy)
        ],
        reading=projection.notes,
    )


def _curve(name: str, points: list[Point]) -> list[Chart]:
    """The step time over ranks; no chart with a single number of ranks."""
    if len(points) < 2:
        return []
    projected = [(log2(point.ranks), point.step_ms) for point in points]
    measured = [(log2(point.ranks), point.measured_ms) for point in points if point.measured_ms]
    ranks = Axis("ranks", lambda *_: [(log2(point.ranks), str(point.ranks)) for point in points])
    return curves("Step time over ranks", [Series(name, projected, marks=measured)], ranks, Axis("ms", linear_ticks))
