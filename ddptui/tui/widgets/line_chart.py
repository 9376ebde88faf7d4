"""Values over steps, as lines of braille dots."""

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from textual.reactive import reactive

from ddptui.text.braille import Frame, Point, beside_axis, frame, is_finite, labels_of, logarithms, signs_of
from ddptui.text.drawing import Line, linear_ticks, log_ticks, wrap
from ddptui.tui.widgets.canvas import Canvas

KINDS = tuple(f"series-{number}" for number in range(6))
ROWS_PER_TICK = 2
PART_FOR_LEGEND = 5  # at most a fifth of the height is for it


class Series(NamedTuple):
    """One line. `points`: step and value (None: not finite), by step. `kind` sets the color: "mean", "rank" (one of
    many), or what `kind_of` returns."""

    name: str
    points: Sequence[Point]
    kind: str


class LineChart(Canvas):
    """Draws series over one axis of steps and, in the legend, their latest values or since when they are not finite."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"canvas--{kind}" for kind in (*KINDS, "rank", "mean")}
    DEFAULT_CSS = """
    LineChart > .canvas--rank { color: $text-muted; }
    LineChart > .canvas--mean { color: $text-primary; text-style: bold; }
    LineChart > .canvas--series-0 { color: $text-primary; }
    LineChart > .canvas--series-1 { color: $text-warning; }
    LineChart > .canvas--series-2 { color: $text-success; }
    LineChart > .canvas--series-3 { color: $text-accent; }
    LineChart > .canvas--series-4 { color: $text-error; }
    LineChart > .canvas--series-5 { color: $text-secondary; }
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
        legend = wrap([_entry(series) for series in self._series], width, max(1, height // PART_FOR_LEGEND))
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
        return [*beside_axis(signs, labels), _steps(seen, left, width, self.logarithmic), *legend]


def kind_of(number: int) -> str:
    """Return the kind, and so the color, of the series with this number. Colors repeat after six."""
    return KINDS[number % len(KINDS)]


def _steps(seen: Frame, left: int, width: int, log: bool) -> Line:
    first, last = f"step {seen.left:g}", f"{seen.right:g}"
    room = width - left - len(first) - len(last)
    return [(" " * left + first + ("log scale" if log and room > 10 else "").center(max(1, room)) + last, "muted")]


def _entry(series: Series) -> Line:
    return [("━ ", series.kind), (f"{series.name} ", ""), (_latest(series.points), "strong")]


def _latest(points: Sequence[Point]) -> str:
    if not points:
        return "–"
    step, value = points[-1]
    if value is not None and is_finite(value):
        return f"{value:.4g}"
    for before, value in reversed(points):
        if is_finite(value):
            break
        step = before
    return f"not finite from step {step:g} on"
