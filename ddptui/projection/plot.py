"""Plots step time over the number of ranks in braille dots. Pure."""

from collections.abc import Sequence
from math import log2, log10

from ddptui.projection.results import Point as Projected
from ddptui.text.braille import Frame, Point, cells, character, columns, frame
from ddptui.text.drawing import linear_ticks, log_ticks

MEASURED = "×"
BAND_EVERY = 3  # columns of dots: the band looks lighter than the line
WIDE = 20.0  # ratio of the largest to the least value from which on the axis is logarithmic
LEAST = (20, 4)  # columns and rows; in fewer nothing can be read


def plot(points: Sequence[Projected], width: int, height: int) -> list[str]:
    """The plot of one strategy as lines: its step, its band, its measurements. Empty for one number of ranks."""
    if len(points) < 2 or width < LEAST[0] or height < LEAST[1]:
        return []
    values = [value for point in points for value in (point.low_ms, point.step_ms, point.high_ms) if value is not None]
    log = max(values) > WIDE * min(values)
    middle, low, high = (
        [_place(point.ranks, value, log) for point, value in zip(points, values, strict=True) if value is not None]
        for values in ([p.step_ms for p in points], [p.low_ms for p in points], [p.high_ms for p in points])
    )
    measured = [_place(point.ranks, point.measured_ms, log) for point in points if point.measured_ms is not None]
    seen = frame([middle, low, high, measured])
    assert seen is not None
    labels = _labels(seen, height, log)
    left = max(map(len, labels.values()), default=0)
    canvas = _canvas(middle, [low, high], seen, (width - left - 1, height))
    _mark(canvas, measured, seen)
    rows = [
        f"{labels.get(at, ''):>{left}}{'┤' if at in labels else '│'}{''.join(row).rstrip()}"
        for at, row in enumerate(canvas)
    ]
    return ["step ms" + (", logarithmic" if log else ""), *rows, _axis(points, seen, left, width)]


def _place(ranks: int, ms: float, log: bool) -> Point:
    return log2(ranks), log10(ms) if log else ms


def _labels(seen: Frame, height: int, log: bool) -> dict[int, str]:
    """Labels of the axis, by row from the top."""
    ticks = (log_ticks if log else linear_ticks)(seen.low, seen.high, max(1, height // 2))
    up = (4 * height - 1) / (seen.high - seen.low)
    return {height - 1 - round((at - seen.low) * up) // 4: label for at, label in ticks if seen.low <= at <= seen.high}


def _canvas(
    middle: Sequence[Point], band: Sequence[Sequence[Point]], seen: Frame, size: tuple[int, int]
) -> list[list[str]]:
    width, height = size
    dots = columns(middle, seen, width, height)
    for edge in band:
        for at, bits in enumerate(columns(edge, seen, width, height)):
            dots[at] |= bits if at % BAND_EVERY == 0 else 0
    canvas = [[" "] * width for _ in range(height)]
    for row, column, bits in cells(dots, height):
        canvas[row][column] = character(bits)
    return canvas


def _mark(canvas: list[list[str]], measured: Sequence[Point], seen: Frame) -> None:
    height, width = len(canvas), len(canvas[0])
    for x, y in measured:
        column = round((x - seen.left) / (seen.right - seen.left) * (2 * width - 1)) // 2
        row = height - 1 - round(((y or 0.0) - seen.low) / (seen.high - seen.low) * (4 * height - 1)) // 4
        canvas[row][column] = MEASURED


def _axis(points: Sequence[Projected], seen: Frame, left: int, width: int) -> str:
    """The numbers of ranks below their columns, as many as fit."""
    room = width - left - 1
    line = [" "] * width
    for point in points:
        label = str(point.ranks)
        at = left + 1 + round((log2(point.ranks) - seen.left) / (seen.right - seen.left) * (room - 1))
        at = min(at, width - len(label))
        if all(sign == " " for sign in line[max(0, at - 1) : at + len(label) + 1]):
            line[at : at + len(label)] = label
    return "".join(line).rstrip() + " ranks"
