"""Plots lines in braille dots beside a labeled axis; a cell holds two columns and four rows of dots.

Where many points of a line fall into one column of dots, all dots from the lowest to the highest of them are set. So no
spike is lost, however many points there are.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from math import log10
from typing import NamedTuple

from ddptui.text.drawing import Line, Span

Point = tuple[float, float | None]  # x and y; y is None in a gap
Signs = list[dict[int, Span]]  # the nonempty cells of a plot: one dict per row, from the top, keyed by column

LARGEST = 1e270  # larger values count as not finite, so that differences and margins cannot overflow
SMALLEST = 1e-290  # smaller differences count as 0, so that dividing by them cannot overflow
# The bits for the lowest 0, 1, 2, 3 or 4 dots of a cell: first for its left column, then for its right one. Unicode
# numbers the upper three dots of the left column, then those of the right one, and then the lowest row.
DOTS_UPTO = ((0, 0x40, 0x44, 0x46, 0x47), (0, 0x80, 0xA0, 0xB0, 0xB8))
EMPTY = 0x2800  # the braille character without dots; adding the bits of a pattern gives its character


class Frame(NamedTuple):
    """The ranges of x and y that a plot shows; on a logarithmic axis they are logarithms."""

    left: float
    right: float
    low: float
    high: float


def is_finite(value: float | None) -> bool:
    """Whether a value is present and can be drawn."""
    return value is not None and -LARGEST < value < LARGEST  # a comparison with NaN is false


def logarithms(points: Iterable[Point]) -> list[Point]:
    """The points for a logarithmic axis: y becomes log10(y); values of 0 or less become gaps."""
    return [(x, log10(y) if y is not None and 0 < y < LARGEST else None) for x, y in points]


def frame(lines: Iterable[Sequence[Point]]) -> Frame | None:
    """The smallest frame that contains all points, never of zero width or height; None if there are no points."""
    drawn = [(x, y) for line in lines for x, y in line if y is not None and is_finite(y)]
    if not drawn:
        return None
    xs, ys = [x for x, _ in drawn], [y for _, y in drawn]
    low, high = min(ys), max(ys)
    if high - low <= SMALLEST:  # a constant line is drawn at half height
        margin = abs(low) / 10 if abs(low) > SMALLEST else 1.0
        low, high = low - margin, high + margin
    left, right = min(xs), max(xs)
    return Frame(left, right if right > left else left + 1, low, high)  # a single point is drawn at the left


def _extents(points: Sequence[Point], bounds: Frame, width: int, height: int) -> Iterator[tuple[int, int, int]]:
    """Yields (column, lowest row, highest row) of a line, in dots. The dots that join two columns belong to the left
    one."""
    across, up = (width - 1) / (bounds.right - bounds.left), (height - 1) / (bounds.high - bounds.low)
    for is_drawn, piece in groupby(points, key=lambda point: is_finite(point[1])):
        at = [(round((x - bounds.left) * across), round(((y or 0.0) - bounds.low) * up)) for x, y in piece if is_drawn]
        last: tuple[int, int] | None = None
        for column, same in groupby(at, key=lambda place: place[0]):
            rows = [row for _, row in same]
            if last:
                yield from _joined(*last, column, rows[0])
            yield column, min(rows), max(rows)
            last = column, rows[-1]


def _joined(column: int, row: int, next_column: int, next_row: int) -> Iterator[tuple[int, int, int]]:
    """Yields the extents of a straight line between two points; each column reaches up to where the next one begins."""
    slope = (next_row - row) / (next_column - column)
    rows = [row + round(slope * at) for at in range(next_column - column + 1)]
    for at, (here, there) in enumerate(pairwise(rows)):
        meets = there - (there > here) + (there < here)
        yield column + at, min(here, meets), max(here, meets)


def row_of(y: float, bounds: Frame, height: int) -> int:
    """The row of cells, counted from the top, in which a value is drawn."""
    return height - 1 - round((y - bounds.low) * ((4 * height - 1) / (bounds.high - bounds.low))) // 4


def column_of(x: float, bounds: Frame, width: int) -> int:
    """The column of cells in which an x is drawn."""
    return round((x - bounds.left) * ((2 * width - 1) / (bounds.right - bounds.left))) // 2


def signs_of(lines: Iterable[tuple[Sequence[Point], str]], bounds: Frame, width: int, height: int) -> Signs:
    """Draws lines, each with its kind, into one plot. A cell that several lines share shows the dots of all of them, in
    the kind of the last."""
    cells: list[dict[int, tuple[int, str]]] = [{} for _ in range(height)]
    for points, kind in lines:
        for column, lowest, highest in _extents(points, bounds, 2 * width, 4 * height):
            upto, at = DOTS_UPTO[column % 2], column // 2
            for above in range(lowest // 4, highest // 4 + 1):  # cells, from the bottom
                bits = upto[min(4, highest - 4 * above + 1)] - upto[max(0, lowest - 4 * above)]
                row = cells[height - 1 - above]
                row[at] = (bits | row[at][0] if at in row else bits, kind)
    return [{column: (chr(EMPTY + bits), kind) for column, (bits, kind) in row.items()} for row in cells]


def labels_of(ticks: Iterable[tuple[float, str]], bounds: Frame, height: int) -> dict[int, str]:
    """The labels of the vertical axis, keyed by row from the top."""
    return {row_of(tick, bounds, height): label for tick, label in ticks if bounds.low <= tick}


def beside_axis(signs: Signs, labels: Mapping[int, str]) -> list[Line]:
    """The rows of a plot with the vertical axis to their left."""
    left = max(map(len, labels.values()), default=0)
    axis = [f"{labels.get(row, ''):>{left}}{'┤' if row in labels else '│'}" for row in range(len(signs))]
    return [[(begin, "muted"), *_spans(row)] for begin, row in zip(axis, signs, strict=True)]


def _spans(row: Mapping[int, Span]) -> list[Span]:
    line = [row.get(column, (" ", "")) for column in range(max(row, default=-1) + 1)]
    return [("".join(sign for sign, _ in same), kind) for kind, same in groupby(line, key=lambda sign: sign[1])]
