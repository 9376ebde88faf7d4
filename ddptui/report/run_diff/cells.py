"""Primitives in two runs, cell by cell: the table's columns, the figures for scripts, and B's times over A's."""

from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import NamedTuple

from ddptui.analysis.primitives.cells import PrimitiveKey, has_a_median, key_of
from ddptui.analysis.primitives.results import Cell
from ddptui.analysis.results import Spread, TrialResult
from ddptui.config.primitives import primitive_facts
from ddptui.report.primitives.tables import MARK
from ddptui.report.rows import grouped
from ddptui.report.run_diff.pairs import ABOUT_TRIAL, ALIKE, RANGE, Pair, Times, times
from ddptui.text.tables import Column
from ddptui.text.units import NOTHING, US_IN_S, duration, size
from ddptui.text.words import count

UNSTEADY = f"{MARK} its calls differ too much for a median to stand for them"


class CellPair(NamedTuple):
    """One operation with one size in both runs."""

    pair: Pair
    ranks: int
    key: PrimitiveKey
    bytes: int
    times_us: Times  # of the launches' medians
    launches: int  # in the run that has fewer
    is_steady: bool  # these medians stand for the calls

    @property
    def ratio(self) -> float:
        """B's time over A's."""
        return self.times_us.ratio.median

    @property
    def size(self) -> str:
        """The size; a dash for a primitive that moves no bytes."""
        has_bytes = primitive_facts(self.key.operation, composite=self.key.composite).has_bytes
        return size(self.bytes) if has_bytes else NOTHING


def cell_pairs(both: Sequence[Pair]) -> Iterator[CellPair]:
    """The cells that both trials of a pair have, in A's order."""
    for pair in both:
        cells, others = map(_cells, pair.both)
        for (ranks, key, bytes), a in cells.items():
            b = others.get((ranks, key, bytes), [])
            if found := times(_spread(a), _spread(b)):
                steady = all(map(has_a_median, [*a, *b]))
                yield CellPair(pair, ranks, key, bytes, found, min(len(a), len(b)), steady)


def _cells(trial: TrialResult) -> dict[tuple[int, PrimitiveKey, int], list[Cell]]:
    """By ranks, operation and bytes: a cell a launch, if it was timed."""
    timed = [(launch.ranks, cell) for launch in trial.primitives for cell in launch.cells if cell.time_us]
    return grouped(((ranks, key_of(cell), cell.bytes), cell) for ranks, cell in timed)


def _spread(cells: Sequence[Cell]) -> Spread | None:
    medians = [cell.time_us.median for cell in cells if cell.time_us]
    return Spread(median=median(medians), min=min(medians), max=max(medians)) if medians else None


def answer(cells: Sequence[CellPair]) -> str:
    """How many times as long as A B took, and in how many cells this is more than launches differ by."""
    steady = sorted([cell for cell in cells if cell.is_steady] or cells, key=lambda cell: cell.ratio)
    low, high = (f"{cell.ratio:.2f} times ({_where(cell)})" for cell in (steady[0], steady[-1]))
    if len(steady) == 1:
        said = f"B took {steady[0].ratio:.2f} times as long as A: {_where(steady[0])}."
    else:
        middle = median(cell.ratio for cell in steady)
        said = f"B took {middle:.2f} times as long as A at the median of {len(steady)} cells: from {low} to {high}."
    told = [cell.times_us.finding for cell in steady if cell.launches > 1]
    if not told:
        return f"{said} One launch is not enough to tell a difference: take more `--repeats`."
    slower, faster = (count(told.count(finding), "cell") for finding in ("slower", "faster"))
    return f"{said} It was slower in {slower} and faster in {faster} by more than the launches differ."


def _where(cell: CellPair) -> str:
    """all_reduce, 4 KB, 2 ranks."""
    return ", ".join([str(cell.key), *([cell.size] if cell.size != NOTHING else []), count(cell.ranks, "rank")])


def notes(cells: Sequence[CellPair]) -> list[str]:
    """How to read the table."""
    return [RANGE] * any(cell.launches > 1 for cell in cells) + [UNSTEADY] * any(not cell.is_steady for cell in cells)


def _time(which: Callable[[Times], Spread]) -> Callable[[CellPair], str]:
    return lambda cell: f"{MARK} " * (not cell.is_steady) + duration(which(cell.times_us).median * US_IN_S)


def _range(cell: CellPair) -> str:
    ratio = cell.times_us.ratio
    return f"{ratio.low:.2f}…{ratio.high:.2f}" if cell.launches > 1 else NOTHING


def _finding(cell: CellPair) -> str:
    finding = cell.times_us.finding
    return NOTHING if cell.launches < 2 else finding if finding == ALIKE else f"B {finding}"


UNSTEADY_MARK = f"{MARK} marks calls that differ too much for it to stand for them."
COLUMNS: tuple[Column[CellPair], ...] = (
    Column("trial", lambda cell: cell.pair.name, 94, left=True, about=ABOUT_TRIAL),
    Column("ranks", lambda cell: str(cell.ranks), 93, about="How many ranks took part."),
    Column("operation", lambda cell: str(cell.key), 100, left=True, about="What was called, or how ranks averaged."),
    Column("size", lambda cell: cell.size, 99, about="The tensor's size, 1 KB being 1024 bytes."),
    Column("A median", _time(lambda both: both.a), 97, about=f"The median call in run A. {UNSTEADY_MARK}"),
    Column("B median", _time(lambda both: both.b), 96, about=f"The median call in run B. {UNSTEADY_MARK}"),
    Column("B / A", lambda cell: f"{cell.ratio:.2f}", 98, about="B's median over A's: above 1, B was slower."),
    Column("range", _range, 92, about="The least and the largest B / A that the launches allow; empty for one launch."),
    Column(
        "so B is",
        _finding,
        95,
        left=True,
        about="Faster or slower, if every launch of B was; else no difference is seen. Empty for one launch.",
    ),
)

# In JSON and CSV: the path of the value from the pair, or what computes it. Scripts read these names: never rename.
FIGURES: dict[str, str | Callable[[CellPair], object]] = {
    "trial": "pair.name",
    "ranks": "ranks",
    **{name: f"key.{name}" for name in ("operation", "composite", "reduce_op")},
    "bytes": "bytes",
    "finding": lambda cell: None if cell.launches < 2 else cell.times_us.finding,
    "ratio": "times_us.ratio.median",
    **{f"ratio_{bound}": f"times_us.ratio.{bound}" for bound in ("low", "high")},
    **{f"{run}_{figure}_us": f"times_us.{run}.{figure}" for run in "ab" for figure in ("median", "min", "max")},
    "launches": "launches",
    "steady": "is_steady",
    **{f"{run}_trial": f"pair.{run}.name" for run in "ab"},
}
