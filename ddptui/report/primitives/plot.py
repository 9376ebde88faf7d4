"""Time or bus bandwidth over size, both axes logarithmic: what was measured as letters, what was fitted as lines.

Pure: a result in, lines out; as spans for the console, where each operation has a color, or as plain text.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from math import log2, log10
from string import ascii_lowercase
from typing import Literal, NamedTuple

from ddptui.analysis.primitives.cells import PrimitiveKey, by_operation
from ddptui.analysis.primitives.fit import Curve, curve_of, time_at, times_of
from ddptui.analysis.primitives.results import PrimitivesResult
from ddptui.config.primitives import primitive_facts
from ddptui.text.braille import Frame, Point, cells, character, columns, frame
from ddptui.text.drawing import Line, Span, log_ticks, wrap
from ddptui.text.units import seconds, size

What = Literal["time", "busbw"]
TITLES: dict[What, str] = {"time": "time", "busbw": "bus bandwidth, GB/s"}
KINDS = tuple(f"series-{number}" for number in range(6))  # as the other charts of the console have them
SEVERAL = "*"
ROWS_A_TICK = 2
LEGEND_ROWS = 3  # at most
STEPS_A_CELL = 2  # of a fitted line: as many as there are dots

Cells = dict[tuple[int, int], tuple[str, str]]  # row and column: sign and kind


class Drawn(NamedTuple):
    """One operation: its letter and color, the measured points and those of its fitted line."""

    which: PrimitiveKey
    letter: str
    kind: str
    points: Sequence[Point]
    line: Sequence[Point]


def plot(
    result: PrimitivesResult, operations: Sequence[PrimitiveKey], width: int, height: int, what: What = "time"
) -> list[str]:
    """The plot as plain text."""
    lines = draw(result, operations, width, height, what)
    return ["".join(words for words, _ in line).rstrip() for line in lines]


def draw(
    result: PrimitivesResult, operations: Sequence[PrimitiveKey], width: int, height: int, what: What = "time"
) -> list[Line]:
    """The plot with its legend below, at most `height` lines of at most `width` cells."""
    series = _series(result, operations, what, width)
    bounds = frame([*(drawn.points for drawn in series), *(drawn.line for drawn in series)])
    legend = wrap([*map(_entry, series), [(TITLES[what], "muted")]], width, min(LEGEND_ROWS, max(1, height // 5)))
    rows = height - len(legend) - 1
    if bounds is None or rows < 1:
        return [[("nothing to draw: no size was measured", "muted")]] if bounds is None else legend
    labels = _labels(bounds, rows, what)
    left = max(map(len, labels.values()), default=0) + 1
    across = max(1, width - left)
    signs = _signs(series, bounds, across, rows)
    lines: list[Line] = [
        [(f"{labels.get(row, ''):>{left - 1}}{'┤' if row in labels else '│'}", "muted"), *_spans(signs, row)]
        for row in range(rows)
    ]
    return [*lines, [(" " * left + _sizes(bounds, across), "muted")], *legend]


def _series(result: PrimitivesResult, operations: Sequence[PrimitiveKey], what: What, width: int) -> list[Drawn]:
    """The operations that were measured with bytes, in the order asked for."""
    groups = {key: times_of(several) for key, several in by_operation(result.cells).items()}
    chosen = [key for key in operations if any(groups.get(key, {}))]
    series = []
    for number, key in enumerate(chosen):
        figure = _figure(key, result.ranks, what)
        times = {bytes: s for bytes, s in groups[key].items() if bytes > 0}
        points = [(log2(bytes), log10(figure(bytes, s))) for bytes, s in times.items()]
        letter = ascii_lowercase[number % len(ascii_lowercase)]
        line = _line(curve_of(times), times, figure, STEPS_A_CELL * width)
        series.append(Drawn(key, letter, KINDS[number % len(KINDS)], points, line))
    return series


def _figure(which: PrimitiveKey, ranks: int, what: What) -> Callable[[float, float], float]:
    """The figure that is drawn, from bytes and seconds."""
    if what == "time":
        return lambda bytes, s: s
    factor = primitive_facts(which.operation, composite=which.composite).factor(ranks)
    return lambda bytes, s: bytes * factor / s / 1e9


def _line(
    curve: Curve | None, times: Mapping[int, float], figure: Callable[[float, float], float], steps: int
) -> list[Point]:
    """The fitted line from the smallest size to the largest; empty if there is no fit."""
    low, high = log2(min(times)), log2(max(times))
    if curve is None or low == high:
        return []
    places = [low + (high - low) * step / steps for step in range(steps + 1)]
    times_s = [(x, time_at(curve, 2**x)) for x in places]
    return [(x, log10(figure(2**x, s))) for x, s in times_s if s > 0]


def _signs(series: Sequence[Drawn], bounds: Frame, width: int, rows: int) -> Cells:
    """By cell: the dots of all lines, the color of the last one; on them, the letters."""
    dots: dict[tuple[int, int], tuple[int, str]] = {}
    for drawn in series:
        for row, column, bits in cells(columns(drawn.line, bounds, width, rows), rows):
            before = dots.get((row, column))
            dots[row, column] = (bits | before[0] if before else bits, drawn.kind)
    signs = {at: (character(bits), kind) for at, (bits, kind) in dots.items()}
    letters: Cells = {}
    for drawn in series:
        for x, y in drawn.points:
            place = _cell(x, y or 0.0, bounds, width, rows)
            alone = letters.get(place, (drawn.letter, drawn.kind)) == (drawn.letter, drawn.kind)
            letters[place] = (drawn.letter, drawn.kind) if alone else (SEVERAL, "strong")
    return signs | letters


def _cell(x: float, y: float, bounds: Frame, width: int, rows: int) -> tuple[int, int]:
    """The row from the top and the column of a point, rounded as the dots are."""
    across, up = (2 * width - 1) / (bounds.right - bounds.left), (4 * rows - 1) / (bounds.high - bounds.low)
    return rows - 1 - round((y - bounds.low) * up) // 4, round((x - bounds.left) * across) // 2


def _spans(signs: Cells, row: int) -> list[Span]:
    end = max((column for at, column in signs if at == row), default=-1) + 1
    line = [signs.get((row, column), (" ", "")) for column in range(end)]
    return [("".join(sign for sign, _ in same), kind) for kind, same in groupby(line, key=lambda sign: sign[1])]


def _labels(bounds: Frame, rows: int, what: What) -> dict[int, str]:
    """The labels of the vertical axis, by row from the top."""
    ticks = log_ticks(bounds.low, bounds.high, max(1, rows // ROWS_A_TICK))
    up = (4 * rows - 1) / (bounds.high - bounds.low)
    return {
        rows - 1 - round((tick - bounds.low) * up) // 4: seconds(10**tick) if what == "time" else f"{10**tick:.3g}"
        for tick, _ in ticks
        if bounds.low <= tick <= bounds.high
    }


def _sizes(bounds: Frame, width: int) -> str:
    """The horizontal axis: sizes where there is room, each at its place, the last one at the end."""
    last = size(2**bounds.right)
    signs = list(" " * max(0, width - len(last)) + last)
    taken = 0
    for power in range(round(bounds.left), round(bounds.right)):
        at = round((power - bounds.left) / (bounds.right - bounds.left) * (width - 1))
        label = size(2**power)
        if taken <= at and at + len(label) + 2 <= width - len(last):
            signs[at : at + len(label)] = label
            taken = at + len(label) + 2
    return "".join(signs)


def _entry(drawn: Drawn) -> Line:
    return [(drawn.letter, drawn.kind), (f" {drawn.which}", "")]
