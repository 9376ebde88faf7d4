"""Whether one figure can stand for the calls of a cell: on a busy machine, or with the scheduler's tick, none can."""

from ddptui.analysis.primitives.results import Cell

MOST_CV = 0.5
MOST_P90 = 2.0  # × the median
MOST_MEDIAN = 3.0  # × the shortest: else most of the calls waited for something that the shortest did not


def has_a_median(cell: Cell) -> bool:
    """Whether its median is that of one kind of call, and not of the luckier or the unluckier ones among two kinds.
    A few calls that took far longer leave it as it is, though not the CV."""
    time = cell.time_us
    return time is not None and time.p90 <= MOST_P90 * time.median and time.median <= MOST_MEDIAN * time.min


def is_uneven(cell: Cell) -> bool:
    """Whether its calls differ so much among each other that its row needs a word."""
    return cell.time_us is not None and (not has_a_median(cell) or (cell.cv is not None and cell.cv > MOST_CV))
