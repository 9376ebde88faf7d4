"""Lines in braille dots: two columns and four rows of dots a cell.

A column of dots is a number, a bit a row, the lowest bit for the lowest row. What a long line does within a column is
kept as the lowest and the highest of its points there: no spike is lost, however many points there are.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from math import log10
from typing import NamedTuple

Point = tuple[float, float | None]  # no value: a gap

LARGEST = 1e270  # larger values count as not finite, so that differences and margins cannot overflow
SMALLEST = 1e-290  # smaller differences count as none, so that dividing by one cannot overflow
# Of a cell: its four rows of dots, from the lowest, in the left column and in the right one.
LEFT = tuple(sum(bit for at, bit in enumerate((0x40, 0x04, 0x02, 0x01)) if dots >> at & 1) for dots in range(16))
RIGHT = tuple(sum(bit for at, bit in enumerate((0x80, 0x20, 0x10, 0x08)) if dots >> at & 1) for dots in range(16))


class Frame(NamedTuple):
    """The ranges of x and of y that a plot shows; on a logarithmic axis these are logarithms."""

    left: float
    right: float
    low: float
    high: float


def is_finite(value: float | None) -> bool:
    """Whether a value is there and can be drawn."""
    return value is not None and -LARGEST < value < LARGEST  # a comparison with NaN is false


def logarithms(points: Iterable[Point]) -> list[Point]:
    """The same points on a logarithmic axis; values that are not above 0 become gaps."""
    return [(x, log10(y) if y is not None and 0 < y < LARGEST else None) for x, y in points]


def frame(lines: Iterable[Sequence[Point]]) -> Frame | None:
    """The frame that holds all points, with an extent in both directions; None if there are no points."""
    drawn = [(x, y) for line in lines for x, y in line if y is not None and is_finite(y)]
    if not drawn:
        return None
    xs, ys = [x for x, _ in drawn], [y for _, y in drawn]
    low, high = min(ys), max(ys)
    if high - low <= SMALLEST:
        margin = abs(low) / 10 if abs(low) > SMALLEST else 1.0
        low, high = low - margin, high + margin
    left, right = min(xs), max(xs)
    return Frame(left, right if right > left else left + 1, low, high)


def columns(points: Sequence[Point], bounds: Frame, width: int, height: int) -> list[int]:
    """The columns of dots of a line; width and height in cells."""
    dots = [0] * (2 * width)
    for piece in _pieces(points):
        for column, lowest, highest in _extents(piece, bounds, 2 * width, 4 * height):
            dots[column] |= (2 << highest) - (1 << lowest)
    return dots


def _pieces(points: Iterable[Point]) -> Iterator[list[tuple[float, float]]]:
    """The stretches of points between gaps."""
    piece: list[tuple[float, float]] = []
    for x, y in points:
        if y is not None and -LARGEST < y < LARGEST:
            piece.append((x, y))
        elif piece:
            yield piece
            piece = []
    if piece:
        yield piece


def _extents(
    piece: Sequence[tuple[float, float]], bounds: Frame, width: int, height: int
) -> Iterator[tuple[int, int, int]]:
    """By column, the lowest and highest row of a line without gaps; rows between two columns belong to the left one."""
    across, up = (width - 1) / (bounds.right - bounds.left), (height - 1) / (bounds.high - bounds.low)
    at = [(round((x - bounds.left) * across), round((y - bounds.low) * up)) for x, y in piece]
    column, last = at[0]
    lowest = highest = last
    for next_column, row in at[1:]:
        if next_column == column:
            lowest, highest = min(lowest, row), max(highest, row)
        else:
            yield from _joined(column, last, next_column, row)
            yield column, lowest, highest
            column, lowest, highest = next_column, row, row
        last = row
    yield column, lowest, highest


def _joined(column: int, row: int, next_column: int, next_row: int) -> Iterator[tuple[int, int, int]]:
    """A straight line between two points, each column of it down or up to where the next one begins."""
    slope = (next_row - row) / (next_column - column)
    rows = [row + round(slope * at) for at in range(next_column - column + 1)]
    for at, (here, there) in enumerate(pairwise(rows)):
        meets = there - (there > here) + (there < here)
        yield column + at, min(here, meets), max(here, meets)


def cells(dots: Sequence[int], height: int) -> Iterator[tuple[int, int, int]]:
    """The cells with dots: row from the top, column, and the bits of the braille character."""
    for column in range(0, len(dots) - 1, 2):
        left, right = dots[column], dots[column + 1]
        row = height - 1
        while left or right:
            if bits := LEFT[left & 15] | RIGHT[right & 15]:
                yield row, column // 2, bits
            left, right, row = left >> 4, right >> 4, row - 1


def character(bits: int) -> str:
    """The braille character with these dots."""
    return chr(0x2800 + bits)
