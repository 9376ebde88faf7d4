"""The panel of one trial on a page: which rank waited for which, how the ranks arrive, and timelines of a few steps."""

from typing import NamedTuple

from ddptui.analysis.results import Results, TrialResult
from ddptui.analysis.wait_matrix import WaitMatrix, wait_matrix
from ddptui.host.source import source_line
from ddptui.live.excerpts import excerpts
from ddptui.page.recorded import Recorded
from ddptui.page.steps import Arrivals, Timeline, arrivals, timeline
from ddptui.page.tables import TableView, table_view
from ddptui.report.matrix import name, span
from ddptui.report.places import MOST_ROWS as MOST_PLACES
from ddptui.report.places import of_trial, place_columns
from ddptui.report.ranks import RANK_COLUMNS
from ddptui.text.tables import fill
from ddptui.text.units import NOTHING, seconds

SHADES = 8  # shades in a matrix
MOST_ROWS = 16  # rows of a matrix: more ranks are grouped into blocks
MOST_RANKS = 64  # rows of a table of ranks
CAPTION = "How long the rank of each row waited for the rank of each column"
CAPTION_OF_BLOCKS = (
    "How long the ranks of each row waited for those of each column, summed over the ranks of both; shades show means "
    "over pairs"
)


class MatrixCell(NamedTuple):
    """How long the ranks of a row waited for those of a column; shade: from 0 to SHADES."""

    text: str
    shade: int


class MatrixRow(NamedTuple):
    """One row of a matrix."""

    name: str  # header of the row
    ranks: str  # the same ranks as header of a column
    cells: list[MatrixCell]


class Matrix(NamedTuple):
    """Which rank waited for which: a row and a column for each rank, or for each block of ranks."""

    caption: str
    rows: list[MatrixRow]


class Panel(NamedTuple):
    """The panel of one trial. prints: whether it appears in print; why_empty: why there are no pictures, if so."""

    name: str
    prints: bool
    headline: str
    matrix: Matrix | None
    arrivals: Arrivals | None
    timelines: list[Timeline]
    ranks: TableView | None
    where: TableView | None
    why_empty: str


def panel(trial: TrialResult, results: Results, recorded: Recorded, headline: str, *, prints: bool) -> Panel:
    """Builds the panel of a trial."""
    matrix = wait_matrix(trial, MOST_ROWS)
    return Panel(
        trial.name,
        prints,
        headline,
        _matrix(matrix) if matrix and matrix.most_s else None,
        arrivals(recorded.joined, trial.summary.culprit if trial.summary else None),
        [timeline(excerpt) for excerpt in excerpts(recorded.joined)],
        _ranks(trial),
        _where(trial, results),
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
    """One cell. part: its mean over pairs, as a part of the largest one."""
    if not s:
        return MatrixCell("" if is_own else NOTHING, 0)
    return MatrixCell(seconds(s), max(1, round(SHADES * part)))


def _ranks(trial: TrialResult) -> TableView | None:
    """The table of the last repeat's ranks, with the console's columns."""
    ranks = trial.repeats[-1].ranks[:MOST_RANKS] if trial.repeats else []
    caption = f"Ranks of {trial.name}, in its last repeat"
    return table_view(caption, fill(RANK_COLUMNS, ranks)) if ranks else None


def _where(trial: TrialResult, results: Results) -> TableView | None:
    """The table of the places in the code where the last repeat's ranks worked most."""
    places, late, read = of_trial(trial, results, source_line)
    caption = f"Where in the code the ranks of {trial.name} worked, in ms a step"
    return table_view(caption, place_columns(places[:MOST_PLACES], late, read)) if places else None


def _why_empty(trial: TrialResult) -> str:
    if trial.summary is None:
        return "This trial has no figures, so there is nothing to draw."
    return "No steps to draw: the trial ran without instruments, or the ranks' clocks could not be compared."
