"""Least squares for a handful of unknowns, none of which may be negative. In plain Python, since the console has no
numpy. Pure.
"""

from collections.abc import Sequence
from itertools import combinations
from math import sqrt

Row = Sequence[float]
SINGULAR = 1e-12  # a smaller pivot, of columns of length 1, is no more than rounding


def nonnegative_least_squares(rows: Sequence[Row], targets: Sequence[float]) -> list[float]:
    """The x without negative parts for which the squares of rows · x − targets have the smallest sum.

    In the solution some parts are 0 and the others free (Lawson and Hanson, "Solving least squares problems", 1974,
    chapter 23). With so few unknowns, each choice of free parts can be tried.
    """
    unknowns = len(rows[0])
    # Bytes and calls differ by many orders of magnitude: columns of length 1 keep the pivots comparable.
    lengths = [sqrt(sum(row[at] ** 2 for row in rows)) or 1.0 for at in range(unknowns)]
    scaled = [[value / length for value, length in zip(row, lengths, strict=True)] for row in rows]
    best, least = [0.0] * unknowns, squares(scaled, targets, [0.0] * unknowns)
    for free in range(unknowns, 0, -1):
        for chosen in combinations(range(unknowns), free):
            x = _with_free(scaled, targets, chosen)
            if x is None or min(x) < 0:
                continue
            if free == unknowns:  # the least of all, and it has no negative part
                return _unscaled(x, lengths)
            error = squares(scaled, targets, x)
            if error < least:
                best, least = x, error
    return _unscaled(best, lengths)


def squares(rows: Sequence[Row], targets: Sequence[float], x: Sequence[float]) -> float:
    """The sum of the squared residuals."""
    return sum((dot(row, x) - target) ** 2 for row, target in zip(rows, targets, strict=True))


def dot(row: Row, x: Sequence[float]) -> float:
    """The dot product."""
    return sum(left * right for left, right in zip(row, x, strict=True))


def _unscaled(x: Sequence[float], lengths: Sequence[float]) -> list[float]:
    return [value / length for value, length in zip(x, lengths, strict=True)]


def _with_free(rows: Sequence[Row], targets: Sequence[float], chosen: Sequence[int]) -> list[float] | None:
    """The best x of which only the chosen parts are free. None: it is not unique."""
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
    """The solution of a system of linear equations, by Gaussian elimination. None: the matrix is singular."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    size = len(rows)
    for at in range(size):
        # The largest pivot keeps rounding errors small.
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
