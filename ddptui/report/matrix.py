"""Draws wait matrices as text: how long each rank waited for each other rank, as numbers or shades."""

from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple

from ddptui.analysis.breakdown import WaitMatrix, wait_matrix
from ddptui.analysis.policy import MATTERS
from ddptui.analysis.repeats import valid_repeats
from ddptui.analysis.results import Results
from ddptui.report.rows import median_figure
from ddptui.text.drawing import Line, shorten
from ddptui.text.words import MS_PER_S, NOTHING, percent, seconds

SHADES = " ░▒▓█"
ITSELF = "·"
MOST_ROWS = 32  # rows that fit on any screen; more ranks are grouped in blocks
IN_MS_BELOW_S = 0.1
LEAST = 0.05  # waits up to this share of the longest wait have no shade
FEWEST_RANKS = 3  # with two ranks a matrix would show nothing new
GAP = 2  # terminal cells between two columns of numbers
BETWEEN = 4  # terminal cells between two matrices
SHADE_CELLS = 2  # width of a shade without a number, so that it looks square
SUMMED = "sums over the ranks of a block"
MEANS = "means over the pairs of ranks"


class Grid(NamedTuple):
    """A matrix as text. All labels have the same length, as have all cells."""

    heads: list[str]  # lines above the rows; the last one has the columns' names
    labels: list[str]  # the rows' names
    cells: list[list[str]]

    @property
    def lines(self) -> list[str]:
        """The heads, then one line for each row."""
        rows = ("".join([label, *row]) for label, row in zip(self.labels, self.cells, strict=True))
        return [line.rstrip() for line in (*self.heads, *rows)]


def grid(matrix: WaitMatrix, width: int) -> Grid:
    """The matrix with numbers if they fit into `width` cells, else with shades alone. With at most MOST_ROWS rows, it
    fits into any width of at least 60."""
    numbers = with_numbers(matrix)
    return numbers if max(map(len, numbers.lines)) <= width else _with_shades(matrix, width)


def describe(matrix: WaitMatrix, row: int, column: int) -> str:
    """A cell in words, e.g. "rank 1 waited 1.26 s for rank 0 (95% of its waiting)"."""
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
    """The shade of a wait: four levels up to the longest wait, most_s, and a space for less than 5 % of it."""
    return SHADES[1 + min(3, int(4 * s / most_s))] if s > LEAST * most_s else SHADES[0]


def name(ranks: range) -> str:
    """The name of a rank or block, e.g. `rank 1` or `ranks 4–7`."""
    return f"rank {ranks.start}" if len(ranks) == 1 else f"ranks {span(ranks)}"


def span(ranks: range) -> str:
    """The number of a rank, or the first and last of a block, e.g. `1` or `4–7`."""
    return str(ranks.start) if len(ranks) == 1 else f"{ranks.start}–{ranks[-1]}"


def with_numbers(matrix: WaitMatrix) -> Grid:
    """The matrix with its shades and numbers, as wide as it needs to be."""
    unit, factor, decimals = ("ms", MS_PER_S, 1) if matrix.most_s < IN_MS_BELOW_S else ("s", 1.0, 2)
    cells = _cells(matrix, lambda shade, s: f"{shade} {s * factor:.{decimals}f}" if s else NOTHING)
    names = [f"for {span(ranks)}" for ranks in matrix.ranks]
    width = GAP + max(len(text) for row in (names, *cells) for text in row)
    corner, *labels = _aligned([f"waited, {unit}", *map(name, matrix.ranks)])
    columns = corner + "".join(each.rjust(width) for each in names)
    heads = [f"{SUMMED}; shades: {MEANS}", columns] if _has_blocks(matrix) else [columns]
    return Grid(heads, labels, [[text.rjust(width) for text in row] for row in cells])


def _with_shades(matrix: WaitMatrix, width: int) -> Grid:
    corner, *labels = _aligned(["for ", *(f"{span(ranks)} " for ranks in matrix.ranks)])
    cell = SHADE_CELLS if len(corner) + SHADE_CELLS * len(labels) <= width else 1
    unit = f"waited; {SHADES[-1]} up to {seconds(matrix.most_per_pair_s)}" + f", {MEANS}" * _has_blocks(matrix)
    columns = corner + _marked([str(ranks.start) for ranks in matrix.ranks], cell)
    cells = [[text.ljust(cell) for text in row] for row in _cells(matrix, lambda shade, _: shade * cell)]
    return Grid([shorten(unit, width), columns], labels, cells)


def _cells(matrix: WaitMatrix, text: Callable[[str, float], str]) -> list[list[str]]:
    """The texts of the cells. `text` makes each from its shade (of the mean over pairs of ranks) and its seconds."""
    most_s = matrix.most_per_pair_s
    cells = []
    for place, row in enumerate(zip(matrix.waited_s, matrix.per_pair_s, strict=True)):
        cells.append([text(shade(mean_s, most_s), s) for s, mean_s in zip(*row, strict=True)])
        if not matrix.waited_s[place][place]:
            cells[-1][place] = ITSELF
    return cells


def _marked(names: Sequence[str], cell: int) -> str:
    """A line of names above their columns: all, every second, every fourth and so on, as there is room."""
    every = 1
    while every * cell <= max(map(len, names)):
        every *= 2
    marks = "".join(name.ljust(every * cell) for name in names[::every])
    room = len(names) * cell
    return marks[:room] if len(marks.rstrip()) <= room else marks[:room].rsplit(None, 1)[0]


def _has_blocks(matrix: WaitMatrix) -> bool:
    return any(len(ranks) > 1 for ranks in matrix.ranks)


def _aligned(texts: Sequence[str]) -> list[str]:
    return [text.ljust(max(map(len, texts))) for text in texts]


def matrices(results: Results) -> dict[str, WaitMatrix]:
    """The wait matrices by trial, of trials with at least three ranks that waited for at least a tenth of the time."""
    shares = {trial.name: median_figure(trial, lambda repeat: repeat.wait_share) for trial in results.trials}
    waited = [trial for trial in results.trials if (shares[trial.name] or 0) >= MATTERS]
    drawn = [trial for trial in waited if len(valid_repeats(trial.repeats)[-1].ranks) >= FEWEST_RANKS]
    return {trial.name: found for trial in drawn if (found := wait_matrix(trial, MOST_ROWS))}


def side_by_side(matrices: Mapping[str, WaitMatrix], width: int) -> list[Line]:
    """The matrices with the names of their trials above, as many side by side as fit into `width` cells."""
    rows: list[list[list[str]]] = []
    for trial, matrix in matrices.items():
        lines = _aligned([trial, *grid(matrix, width).lines])
        if not rows or sum(len(block[0]) + BETWEEN for block in rows[-1]) + len(lines[0]) > width:
            rows.append([])
        rows[-1].append(lines)
    drawn: list[str] = []
    for row in rows:
        widths = [len(block[0]) for block in row]
        beside = [map(str.ljust, parts, widths) for parts in zip_longest(*row, fillvalue="")]
        drawn += ["", *((" " * BETWEEN).join(parts).rstrip() for parts in beside)]
    return [[(line, "")] for line in drawn[1:]]
