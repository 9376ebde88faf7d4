"""Who waited for whom in the trials of a run, a matrix for each, side by side as far as they fit."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from ddptui.analysis.counted import counted
from ddptui.analysis.policy import MATTERS
from ddptui.analysis.results import Results, TrialResult
from ddptui.analysis.wait_matrix import wait_matrix
from ddptui.report.matrix import MOST_ROWS, grid
from ddptui.report.rows import median_figure

FEWEST_RANKS = 3  # of two ranks it is clear which waited for which
GAP = 4  # cells between two matrices


def matrices(results: Results, width: int) -> list[str]:
    """The matrices of the trials in which ranks waited for a tenth of the time, in lines no wider than `width`."""
    blocks = [[trial.name, *drawn] for trial in results.trials if (drawn := _drawn(trial, width))]
    return ["Who waited for whom", *_side_by_side(blocks, width)] if blocks else []


def _drawn(trial: TrialResult, width: int) -> list[str]:
    """Empty if the trial has two ranks at most, or waited little."""
    repeats = counted(trial.repeats)
    share = median_figure(trial, lambda repeat: repeat.wait_share)
    if share is None or share < MATTERS or len(repeats[-1].ranks) < FEWEST_RANKS:
        return []
    matrix = wait_matrix(trial, MOST_ROWS)
    return grid(matrix, width).lines if matrix else []


def _side_by_side(blocks: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    row: list[Sequence[str]] = []
    for block in blocks:
        if row and sum(map(_width, [*row, block])) + GAP * len(row) > width:
            yield from _joined(row)
            row = []
        row.append(block)
    yield from _joined(row)


def _joined(row: Sequence[Sequence[str]]) -> Iterator[str]:
    yield ""
    widths = [_width(block) + GAP for block in row]
    for parts in zip_longest(*row, fillvalue=""):
        yield "".join(part.ljust(width) for part, width in zip(parts, widths, strict=True)).rstrip()


def _width(block: Sequence[str]) -> int:
    return max(map(len, block))
