"""Least squares for a handful of unknowns, none of which may be negative. Plain Python: the console has no numpy."""

from collections.abc import Sequence
from itertools import combinations
from math import sqrt

Row = Sequence[float]
SINGULAR = 1e-12  # what is left of a column of length 1: no more than rounding


def nonnegative_least_squares(rows: Sequence[Row], targets: Sequence[float]) -> list[float]:
    """The x with no part below 0 for which the squares of rows · x − targets add up to least.

    The least is found with some parts at 0 and the others free (Lawson and Hanson, "Solving least squares problems",
    1974, chapter 23); with as few unknowns as here each choice can be tried, all free first.
    """
    unknowns = len(rows[0])
    lengths = [sqrt(sum(row[at] ** 2 for row in rows)) or 1.0 for at in range(unknowns)]
    scaled = [[value / length for value, length in zip(row, lengths, strict=True)] for row in rows]
    best, least = [0.0] * unknowns, squares(scaled, targets, [0.0] * unknowns)
    for free in range(unknowns, 0, -1):
        for chosen in combinations(range(unknowns), free):
            found = _with_free(scaled, targets, chosen)
            if found is None or min(found) < 0:
                continue
            if free == unknowns:
                return _unscaled(found, lengths)
            error = squares(scaled, targets, found)
            if error < least:
                best, least = found, error
    return _unscaled(best, lengths)


def squares(rows: Sequence[Row], targets: Sequence[float], x: Sequence[float]) -> float:
    """The sum of the squared residuals."""
    return sum((dot(row, x) - target) ** 2 for row, target in zip(rows, targets, strict=True))


def dot(row: Row, x: Sequence[float]) -> float:
    return sum(left * right for left, right in zip(row, x, strict=True))


def _unscaled(x: Sequence[float], lengths: Sequence[float]) -> list[float]:
    return [value / length for value, length in zip(x, lengths, strict=True)]


def _with_free(rows: Sequence[Row], targets: Sequence[float], chosen: Sequence[int]) -> list[float] | None:
    """All parts, of which only the chosen ones are free. None: many x do equally well."""
    normal = [[sum(row[i] * row[j] for row in rows) for j in chosen] for i in chosen]
    right = [sum(row[i] * target for row, target in zip(rows, targets, strict=True)) for i in chosen]
    solved = solve(normal, right)
    if solved is None:
        return None
    x = [0.0] * len(rows[0])
    for at, value in zip(chosen, solved, strict=True):
        x[at] = value
    return x


def solve(matrix: Sequence[Row], right: Sequence[float]) -> list[float] | None:
    """Gauss's elimination, the largest pivot first. None: singular."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    size = len(rows)
    for at in range(size):
        pivot = max(range(at, size), key=lambda row: abs(rows[row][at]))
        if abs(rows[pivot][at]) < SINGULAR:
            return None
        rows[at], rows[pivot] = rows[pivot], rows[at]
        for below in range(at + 1, size):
            factor = rows[below][at] / rows[at][at]
            rows[below] = [low - factor * high for low, high in zip(rows[below], rows[at], strict=True)]
    x = [0.0] * size
    for at in range(size - 1, -1, -1):
        x[at] = (rows[at][size] - dot(rows[at][at + 1 : size], x[at + 1 :])) / rows[at][at]
    return x
