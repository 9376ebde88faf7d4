"""What a page shows of one trial at a time: who waited for whom, how the ranks arrive, what they did in a few steps."""

from typing import NamedTuple

from ddptui.analysis.results import TrialResult
from ddptui.analysis.wait_matrix import WaitMatrix, wait_matrix
from ddptui.live.excerpts import excerpts
from ddptui.page.recorded import Recorded
from ddptui.page.steps import Arrivals, Timeline, arrivals, timeline
from ddptui.page.tables import TableView, table_view
from ddptui.report.matrix import name, span
from ddptui.report.ranks import RANK_COLUMNS
from ddptui.text.tables import fill
from ddptui.text.units import NOTHING, seconds

SHADES = 8  # of a matrix
MOST_ROWS = 16  # of a matrix: more ranks are put together
MOST_RANKS = 64  # in a table of ranks
CAPTION = "How long the rank of a row waited for the rank of a column"
CAPTION_OF_BLOCKS = (
    "How long the ranks of a row waited for those of a column, summed over the ranks of both; shades are means over "
    "their pairs"
)


class MatrixCell(NamedTuple):
    """How long the ranks of a row waited for those of a column; shade: 0 to SHADES."""

    text: str
    shade: int


class MatrixRow(NamedTuple):
    """The ranks of a row, as rows and columns name them, and their cells."""

    name: str
    ranks: str
    cells: list[MatrixCell]


class Matrix(NamedTuple):
    """Who waited for whom: a row, and a column, for each rank, or for each block of ranks."""

    caption: str
    rows: list[MatrixRow]


class Panel(NamedTuple):
    """One trial. prints: it is on paper, too. why_empty: why there are no pictures, if there are none."""

    name: str
    prints: bool
    headline: str
    matrix: Matrix | None
    arrivals: Arrivals | None
    timelines: list[Timeline]
    ranks: TableView | None
    why_empty: str


def panel(trial: TrialResult, recorded: Recorded, headline: str, *, prints: bool) -> Panel:
    """The panel of a trial."""
    matrix = wait_matrix(trial, MOST_ROWS)
    return Panel(
        trial.name,
        prints,
        headline,
        _matrix(matrix) if matrix and matrix.most_s else None,
        arrivals(recorded.joined, trial.summary.culprit if trial.summary else None),
        [timeline(excerpt) for excerpt in excerpts(recorded.joined)],
        _ranks(trial),
        "" if recorded.joined else _why_empty(trial),
    )


def _matrix(matrix: WaitMatrix) -> Matrix:
    per_pair_s, most_s = matrix.per_pair_s, matrix.most_per_pair_s
    rows = []
    for row, ranks in enumerate(matrix.ranks):
        parts = [s / most_s for s in per_pair_s[row]]
        waited = enumerate(zip(matrix.waited_s[row], parts, strict=True))
        cells = [_cell(s, part, is_own=column == row) for column, (s, part) in waited]
        rows.append(MatrixRow(name(ranks), span(ranks), cells))
    in_blocks = any(len(ranks) > 1 for ranks in matrix.ranks)
    return Matrix(CAPTION_OF_BLOCKS if in_blocks else CAPTION, rows)


def _cell(s: float, part: float, *, is_own: bool) -> MatrixCell:
    """part: of the longest mean over pairs."""
    if not s:
        return MatrixCell("" if is_own else NOTHING, 0)
    return MatrixCell(seconds(s), max(1, round(SHADES * part)))


def _ranks(trial: TrialResult) -> TableView | None:
    """The ranks of the last repeat, as the console lists them."""
    ranks = trial.repeats[-1].ranks[:MOST_RANKS] if trial.repeats else []
    caption = f"Ranks of {trial.name}, in its last repeat"
    return table_view(caption, fill(RANK_COLUMNS, ranks)) if ranks else None


def _why_empty(trial: TrialResult) -> str:
    if trial.summary is None:
        return "It has no figures, and so no pictures."
    return "No step of all ranks can be drawn: it ran without instruments, or the ranks' clocks were not compared."
