"""A chart of values over steps or seconds, with lines of braille dots."""

from collections.abc import Sequence
from itertools import takewhile
from typing import Literal, NamedTuple

from ddptui.text.drawing import (
    Frame,
    Line,
    Point,
    Signs,
    beside_axis,
    column_of,
    frame,
    is_finite,
    labels_of,
    linear_ticks,
    log_ticks,
    logarithms,
    row_of,
    signs_of,
    wrap,
)
from ddptui.text.words import seconds
from ddptui.tui.widgets.canvas import Canvas

ROWS_PER_TICK = 2
PART_FOR_LEGEND = 5  # the legend takes at most a fifth of the height
NOTHING_YET = "nothing to draw yet"

Across = Literal["steps", "seconds"]  # unit of the horizontal axis


class Series(NamedTuple):
    """One line of the chart."""

    name: str
    points: Sequence[Point]  # (step or second, value), in order; value None: not finite
    kind: str  # gives the color: "mean", "rank" (one of many), or a result of `series_kind`
    mark: str = ""  # a character drawn on the line, to identify it without color
    said: str | None = None  # text in the legend; None: the latest value


class LineChart(Canvas):
    """Draws series over one axis. The legend has their latest values, or says since when they are not finite."""

    logarithmic = False
    has_legend = True
    _series: Sequence[Series] = ()
    _top: int | None = None
    _across: Across = "steps"
    _empty = NOTHING_YET

    def show(
        self, series: Sequence[Series], across: Across = "steps", *, top: int | None = None, empty: str = NOTHING_YET
    ) -> None:
        """Draw these series. top: number of the series on top of the others; empty: the text if there are no points."""
        self._series, self._across, self._top, self._empty = series, across, top, empty
        self.redraw()

    def draw(self, width: int, height: int) -> Sequence[Line]:
        if not any(series.points for series in self._series):
            return [[(self._empty, "muted")]]
        legend = self._legend(width, max(1, height // PART_FOR_LEGEND)) if self.has_legend else []
        rows = height - len(legend) - 1
        if rows < 1:
            return legend
        lines = [logarithms(series.points) if self.logarithmic else series.points for series in self._series]
        seen = frame(lines)
        if seen is None:
            return [[("nothing above 0" if self.logarithmic else "no finite value", "muted")], *legend]
        ticks = log_ticks if self.logarithmic else linear_ticks
        labels = labels_of(ticks(seen.low, seen.high, max(1, rows // ROWS_PER_TICK)), seen, rows)
        left = max(map(len, labels.values()), default=0) + 1
        signs = self._signs(lines, seen, max(1, width - left), rows)
        first, last = self._at(seen.left), self._at(seen.right).removeprefix("step ")  # the first label has the unit
        room = width - left - len(first) - len(last)
        scale = ("log scale" if self.logarithmic and room > 10 else "").center(max(1, room))
        return [*beside_axis(signs, labels), [(" " * left + first + scale + last, "muted")], *legend]

    def _legend(self, width: int, most: int) -> list[Line]:
        entries: list[Line] = [
            [(f"{series.mark}━ ", series.kind), (f"{series.name} ", ""), (self._said(series), "strong")]
            for series in self._series
        ]
        return wrap(entries, width, most)

    def _signs(self, lines: Sequence[Sequence[Point]], seen: Frame, width: int, height: int) -> Signs:
        """Draws the lines, the top one last, and their marks, each at a different part so that none hides another."""
        order = sorted(range(len(lines)), key=lambda number: number == self._top)
        signs = signs_of(((lines[number], self._series[number].kind) for number in order), seen, width, height)
        for number in order:
            series = self._series[number]
            points = [(x, y) for x, y in lines[number] if y is not None and is_finite(y)]
            if series.mark and points:
                x, y = points[len(points) * (number + 1) // (len(lines) + 1)]
                signs[row_of(y, seen, height)][column_of(x, seen, width)] = (series.mark, series.kind)
        return signs

    def _said(self, series: Series) -> str:
        if series.said is not None:
            return series.said
        if not series.points:
            return "–"
        value = series.points[-1][1]
        if value is not None and is_finite(value):
            return f"{value:.4g}"
        *_, (since, _) = takewhile(lambda point: not is_finite(point[1]), reversed(series.points))
        return f"not finite from {self._at(since)} on"

    def _at(self, x: float) -> str:
        return f"step {x:g}" if self._across == "steps" else seconds(x)
