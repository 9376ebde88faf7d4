"""Who waited for whom as text: numbers beside shades for a few ranks, shades for many."""

from collections.abc import Sequence
from typing import NamedTuple

from ddptui.analysis.wait_matrix import WaitMatrix
from ddptui.text.drawing import shorten
from ddptui.text.units import MS_PER_S, NOTHING, percent, seconds

SHADES = " ░▒▓█"
ITSELF = "·"
MOST_ROWS = 32  # in which a matrix fits on any screen; more ranks go into blocks
IN_MS_BELOW_S = 0.1
LEAST = 0.05  # of the longest wait, from which on one has a shade
GAP = 2  # cells between two columns of numbers
SHADE_CELLS = 2  # of a cell without a number: about as wide as it is high
SUMMED = "sums over the ranks of a block"
MEANS = "means over the pairs of ranks"  # what shades are of blocks


class Grid(NamedTuple):
    """A matrix as text. All labels are as long, and all cells."""

    heads: list[str]  # the last one names the columns
    labels: list[str]  # of the rows
    cells: list[list[str]]
    gap: int = 0  # spaces at the start of each cell

    @property
    def lines(self) -> list[str]:
        """The heads, and a line a row."""
        rows = ("".join([label, *row]) for label, row in zip(self.labels, self.cells, strict=True))
        return [line.rstrip() for line in (*self.heads, *rows)]

    @property
    def width(self) -> int:
        """The width of its widest line."""
        return max(map(len, self.lines))


def grid(matrix: WaitMatrix, width: int) -> Grid:
    """The matrix with numbers if they fit into `width`, else with shades alone: no wider than a `width` of at least 60,
    if it has at most MOST_ROWS rows."""
    numbers = _with_numbers(matrix)
    return numbers if numbers.width <= width else _with_shades(matrix, width)


def describe(matrix: WaitMatrix, row: int, column: int) -> str:
    """A cell in words: rank 1 waited 1.26 s for rank 0 (95% of its waiting)."""
    waiting, late = matrix.ranks[row], matrix.ranks[column]
    s, in_all = matrix.waited_s[row][column], sum(matrix.waited_s[row])
    who, whose = name(waiting), "its" if len(waiting) == 1 else "their"
    if row == column and len(waiting) == 1:
        return f"{who} waited {seconds(in_all)} in all" if in_all else f"{who} waited for no rank"
    if not s:
        return f"{who} did not wait for {name(late)}"
    summed = "" if len(waiting) == 1 else ", summed over them"
    return f"{who} waited {seconds(s)} for {name(late)} ({percent(s / in_all)} of {whose} waiting){summed}"


def largest(matrix: WaitMatrix) -> tuple[int, int]:
    """The row and the column of the longest wait."""
    places = [(row, column) for row in range(len(matrix.ranks)) for column in range(len(matrix.ranks))]
    return max(places, key=lambda place: matrix.waited_s[place[0]][place[1]])


def shade(s: float, most_s: float) -> str:
    """How much a wait is of the longest one, in quarters; a space for next to nothing."""
    return SHADES[1 + min(3, int(4 * s / most_s))] if s > LEAST * most_s else SHADES[0]


def name(ranks: range) -> str:
    """As in `rank 1`, or `ranks 4–7`."""
    return f"rank {ranks.start}" if len(ranks) == 1 else f"ranks {span(ranks)}"


def span(ranks: range) -> str:
    """As in `1`, or `4–7`."""
    return str(ranks.start) if len(ranks) == 1 else f"{ranks.start}–{ranks[-1]}"


def _with_numbers(matrix: WaitMatrix) -> Grid:
    in_ms = matrix.most_s < IN_MS_BELOW_S
    names = [f"for {span(ranks)}" for ranks in matrix.ranks]
    texts = [
        [_number(matrix, row, column, shade, in_ms=in_ms) for column, shade in enumerate(shades)]
        for row, shades in enumerate(_shades(matrix))
    ]
    cell = GAP + max(len(text) for line in (names, *texts) for text in line)
    corner, labels = _labels([*map(name, matrix.ranks)], f"waited, {'ms' if in_ms else 's'}")
    columns = corner + "".join(each.rjust(cell) for each in names)
    heads = [f"{SUMMED}; shades: {MEANS}", columns] if _has_blocks(matrix) else [columns]
    return Grid(heads, labels, [[text.rjust(cell) for text in line] for line in texts], GAP)


def _number(matrix: WaitMatrix, row: int, column: int, shade: str, *, in_ms: bool) -> str:
    s = matrix.waited_s[row][column]
    if not s:
        return ITSELF if row == column else NOTHING
    number = f"{s * MS_PER_S:.1f}" if in_ms else f"{s:.2f}"
    return f"{shade} {number}"


def _with_shades(matrix: WaitMatrix, width: int) -> Grid:
    corner, labels = _labels([f"{span(ranks)} " for ranks in matrix.ranks], "for ")
    cell = SHADE_CELLS if len(corner) + SHADE_CELLS * len(labels) <= width else 1
    unit = f"waited; {SHADES[-1]} up to {seconds(matrix.most_per_pair_s)}" + f", {MEANS}" * _has_blocks(matrix)
    columns = corner + _marked([str(ranks.start) for ranks in matrix.ranks], cell)
    cells = [[shade * cell for shade in row] for row in _shades(matrix)]
    for place, row in enumerate(cells):
        if len(matrix.ranks[place]) == 1:
            row[place] = ITSELF.ljust(cell)
    return Grid([shorten(unit, width), columns], labels, cells)


def _shades(matrix: WaitMatrix) -> list[list[str]]:
    """The shade of each cell, by the mean over its pairs of ranks."""
    most_s = matrix.most_per_pair_s
    return [[shade(s, most_s) for s in row] for row in matrix.per_pair_s]


def _marked(names: Sequence[str], cell: int) -> str:
    """As many names above their columns as have room: all, every second, every fourth and so on."""
    every = 1
    while every * cell <= max(map(len, names)):
        every *= 2
    marks = "".join(name.ljust(every * cell) for name in names[::every])
    room = len(names) * cell
    return marks[:room] if len(marks.rstrip()) <= room else marks[:room].rsplit(None, 1)[0]


def _has_blocks(matrix: WaitMatrix) -> bool:
    return any(len(ranks) > 1 for ranks in matrix.ranks)


def _labels(rows: Sequence[str], corner: str = "") -> tuple[str, list[str]]:
    """The corner and the labels, all as wide as the widest."""
    widest = max(map(len, (corner, *rows)))
    return corner.ljust(widest), [row.ljust(widest) for row in rows]
