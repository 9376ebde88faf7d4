"""Values over steps, as lines of braille dots."""

from collections.abc import Sequence
from itertools import takewhile
from typing import ClassVar, NamedTuple

from textual.reactive import reactive

from ddptui.text.braille import Point, beside_axis, frame, is_finite, labels_of, logarithms, signs_of
from ddptui.text.drawing import Line, linear_ticks, log_ticks, wrap
from ddptui.tui.widgets.canvas import Canvas

ROWS_PER_TICK = 2
PART_FOR_LEGEND = 5  # at most a fifth of the height is for it


class Series(NamedTuple):
    """One line of the chart."""

    name: str
    points: Sequence[Point]  # step and value (None: not finite), by step
    kind: str  # sets the color: "mean", "rank" (one of many), or what `series_kind` returns


class LineChart(Canvas):
    """Draws series over one axis of steps and, in the legend, their latest values or since when they are not finite."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"canvas--rank", "canvas--mean"}
    DEFAULT_CSS = """
    LineChart > .canvas--rank { color: $text-muted; }
    LineChart > .canvas--mean { color: $text-primary; text-style: bold; }
    """
    logarithmic: reactive[bool] = reactive(False)
    _series: Sequence[Series] = ()

    def show(self, series: Sequence[Series]) -> None:
        """Draw these series."""
        self._series = series
        self.redraw()

    def watch_logarithmic(self) -> None:
        self.redraw()

    def draw(self, width: int, height: int) -> Sequence[Line]:
        if not any(series.points for series in self._series):
            return [[("nothing to draw yet", "muted")]]
        entries: list[Line] = [
            [("━ ", series.kind), (f"{series.name} ", ""), (_latest(series.points), "strong")]
            for series in self._series
        ]
        legend = wrap(entries, width, max(1, height // PART_FOR_LEGEND))
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
        kinds = [series.kind for series in self._series]
        signs = signs_of(zip(lines, kinds, strict=True), seen, max(1, width - left), rows)
        first, last = f"step {seen.left:g}", f"{seen.right:g}"
        room = width - left - len(first) - len(last)
        scale = ("log scale" if self.logarithmic and room > 10 else "").center(max(1, room))
        return [*beside_axis(signs, labels), [(" " * left + first + scale + last, "muted")], *legend]


def _latest(points: Sequence[Point]) -> str:
    if not points:
        return "–"
    value = points[-1][1]
    if value is not None and is_finite(value):
        return f"{value:.4g}"
    *_, (since, _) = takewhile(lambda point: not is_finite(point[1]), reversed(points))
    return f"not finite from step {since:g} on"
