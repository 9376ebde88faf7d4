"""Plots time or bus bandwidth over message size, on logarithmic axes: medians as letters, joined by lines."""

from collections.abc import Sequence
from math import log2, log10
from string import ascii_lowercase
from typing import Literal, NamedTuple

from ddptui.analysis.primitive_results import PrimitiveKey, PrimitivesResult, by_operation
from ddptui.config.catalog import primitive_facts
from ddptui.text.drawing import (
    Frame,
    Line,
    Point,
    Span,
    beside_axis,
    column_of,
    frame,
    labels_of,
    log_ticks,
    row_of,
    series_kind,
    signs_of,
    wrap,
)
from ddptui.text.words import US_IN_S, seconds, size

What = Literal["time", "busbw"]
TITLES: dict[What, str] = {"time": "time", "busbw": "bus bandwidth, GB/s"}
SEVERAL = "*"
ROWS_A_TICK = 2
LEGEND_ROWS = 3  # at most


class Drawn(NamedTuple):
    """One operation: its letter and color, and the measured points."""

    which: PrimitiveKey
    sign: Span
    points: Sequence[Point]


def draw(
    result: PrimitivesResult, operations: Sequence[PrimitiveKey], width: int, height: int, what: What = "time"
) -> list[Line]:
    """The lines of the plot, with the legend at the end: at most `height` lines of at most `width` cells."""
    series = series_of(result, operations, what)
    bounds = frame(drawn.points for drawn in series)
    entries: list[Line] = [[drawn.sign, (f" {drawn.which}", "")] for drawn in series]
    legend = wrap([*entries, [(TITLES[what], "muted")]], width, min(LEGEND_ROWS, max(1, height // 5)))
    rows = height - len(legend) - 1  # one line is for the sizes
    if bounds is None or rows < 1:
        return [[("nothing to plot: no size was measured", "muted")]] if bounds is None else legend
    ticks = [tick for tick, _ in log_ticks(bounds.low, bounds.high, max(1, rows // ROWS_A_TICK))]
    named = [(tick, seconds(10**tick) if what == "time" else f"{10**tick:.3g}") for tick in ticks]
    labels = labels_of(named, bounds, rows)
    left = max(map(len, labels.values()), default=0) + 1
    across = max(1, width - left)
    signs = signs_of([(drawn.points, drawn.sign[1]) for drawn in series], bounds, across, rows)
    for (row, column), sign in _letters(series, bounds, across, rows).items():
        signs[row][column] = sign
    return [*beside_axis(signs, labels), [(" " * left + _sizes(bounds, across), "muted")], *legend]


def series_of(result: PrimitivesResult, operations: Sequence[PrimitiveKey], what: What = "time") -> list[Drawn]:
    """The operations that have measured sizes, in the given order, with their points. x is log2 of bytes; y is log10 of
    seconds, or of GB/s (1e9 bytes, as in nccl-tests)."""
    groups = by_operation(result.cells)
    series: list[Drawn] = []
    for key in operations:
        factor = primitive_facts(key.operation, composite=key.composite).factor(result.ranks)
        points: list[Point] = []
        for cell in groups.get(key, []):
            if cell.bytes and cell.time_us and cell.time_us.median > 0:  # 0 has no place on a logarithmic axis
                s = cell.time_us.median * US_IN_S
                points.append((log2(cell.bytes), log10(s if what == "time" else cell.bytes * factor / s / 1e9)))
        if points:
            sign = (ascii_lowercase[len(series) % len(ascii_lowercase)], series_kind(len(series)))
            series.append(Drawn(key, sign, points))
    return series


def _letters(series: Sequence[Drawn], bounds: Frame, width: int, rows: int) -> dict[tuple[int, int], Span]:
    """The letters of the operations by row and column of their points; SEVERAL where points coincide."""
    letters: dict[tuple[int, int], Span] = {}
    for drawn in series:
        for x, y in drawn.points:
            place = row_of(y or 0.0, bounds, rows), column_of(x, bounds, width)
            letters[place] = drawn.sign if letters.get(place, drawn.sign) == drawn.sign else (SEVERAL, "strong")
    return letters


def _sizes(bounds: Frame, width: int) -> str:
    """The horizontal axis: the last size at the end, and the others at their places as far as there is room."""
    axis, last = "", size(2**bounds.right)
    for power in range(round(bounds.left), round(bounds.right)):
        at = round((power - bounds.left) / (bounds.right - bounds.left) * (width - 1))
        label = size(2**power)
        if len(axis) <= at and at + len(label) + 2 <= width - len(last):
            axis = axis.ljust(at) + label + "  "
    return axis.ljust(width - len(last)) + last
