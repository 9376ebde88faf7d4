"""Works with cells, i.e. timings of one primitive at one size: combines launches, tells whether a median is meaningful,
and finds the fastest way to average at each size. Pure.

On a busy machine, or because of the scheduler's tick, calls may be either fast or slow; then no single figure
represents a cell.
"""

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import NamedTuple

import msgspec

from ddptui.analysis.primitives.results import Cell, PrimitivesResult, TimeUs
from ddptui.config.catalog import ReduceOpName, primitive_title
from ddptui.text.words import US_IN_S


class PrimitiveKey(NamedTuple):
    """Identifies an operation of torch.distributed, or a strategy (composite), with its reduce operator if any."""

    operation: str
    composite: bool = False
    reduce_op: ReduceOpName | None = None

    def __str__(self) -> str:
        name = primitive_title(self.operation, composite=self.composite)
        return name if self.reduce_op in (None, "sum") else f"{name} ({self.reduce_op})"


def key_of(cell: Cell) -> PrimitiveKey:
    """Identifies the operation that a cell (one operation at one size) measured."""
    return PrimitiveKey(cell.operation, cell.composite, cell.reduce_op)


def combined(repeats: Sequence[PrimitivesResult]) -> PrimitivesResult:
    """Combines several launches of the same measurement: for each cell, medians of times and the sum of calls."""
    cells: dict[tuple[PrimitiveKey, int], list[Cell]] = {}
    for cell in (cell for repeat in repeats for cell in repeat.cells):
        cells.setdefault((key_of(cell), cell.bytes), []).append(cell)
    # Views are the same in every launch: keep those of the first.
    return msgspec.structs.replace(repeats[0], cells=[_combined_cell(several) for several in cells.values()])


def by_operation(cells: Iterable[Cell]) -> dict[PrimitiveKey, list[Cell]]:
    """The cells of each operation, from the smallest size to the largest."""
    by_key: dict[PrimitiveKey, list[Cell]] = {}
    for cell in cells:
        by_key.setdefault(key_of(cell), []).append(cell)
    return {key: sorted(several, key=lambda cell: cell.bytes) for key, several in by_key.items()}


def _combined_cell(cells: Sequence[Cell]) -> Cell:
    slowest = max(cells, key=lambda cell: cell.slowest_us or 0.0)
    times, cvs = [cell.time_us for cell in cells if cell.time_us], [cell.cv for cell in cells if cell.cv is not None]
    names = TimeUs.__struct_fields__
    time = TimeUs(**{name: median(getattr(time, name) for time in times) for name in names}) if times else None
    # Bandwidths refer to the mean time: scale them from the slowest launch's mean to the combined mean.
    longer = time.mean / slowest.time_us.mean if time and slowest.time_us else 1.0
    return msgspec.structs.replace(
        slowest,
        calls=sum(cell.calls for cell in cells),
        time_us=time,
        cv=median(cvs) if cvs else None,
        algbw_gb_s=slowest.algbw_gb_s and slowest.algbw_gb_s / longer,
        busbw_gb_s=slowest.busbw_gb_s and slowest.busbw_gb_s / longer,
        wrong=sum(cell.wrong for cell in cells),
        error=next((cell.error for cell in cells if cell.error), None),
    )


MOST_CV = 0.5
MOST_P90 = 2.0  # times the median
MOST_MEDIAN = 3.0  # times the shortest call: above, most calls waited for something that the shortest did not


def has_a_median(cell: Cell) -> bool:
    """Whether the median represents the cell's calls, i.e. they do not split into fast and slow ones."""
    time = cell.time_us
    return time is not None and time.p90 <= MOST_P90 * time.median and time.median <= MOST_MEDIAN * time.min


def is_uneven(cell: Cell) -> bool:
    """Whether the cell's calls vary so much that its row needs a note."""
    # A few very long calls change the CV, but not the median.
    return cell.time_us is not None and (not has_a_median(cell) or (cell.cv is not None and cell.cv > MOST_CV))


CLEAR = 0.10  # part of the faster time: a smaller difference is noise
Times = Mapping[int, Sequence[float]]  # size in bytes -> times of the launches, in s


class Span(NamedTuple):
    """A range of sizes from `first` to `last`, in bytes. ways: the fastest, or all that are too close to tell."""

    ways: tuple[PrimitiveKey, ...]
    first: int
    last: int


def times_of(launches: Iterable[PrimitivesResult], *, steady: bool) -> dict[PrimitiveKey, dict[int, list[float]]]:
    """The times of each operation at each size over all launches, in s. A launch contributes its median if that is
    meaningful, otherwise the shortest call, the median and the 90th percentile. steady: leave out the latter kind."""
    times: dict[PrimitiveKey, dict[int, list[float]]] = {}
    for cell in (cell for launch in launches for cell in launch.cells):
        if cell.time_us and (has_a_median(cell) or not steady):
            time = cell.time_us
            figures = [time.median] if has_a_median(cell) else [time.min, time.median, time.p90]
            times.setdefault(key_of(cell), {}).setdefault(cell.bytes, []).extend(us * US_IN_S for us in figures)
    return times


def rivals(measured: Iterable[PrimitiveKey]) -> list[PrimitiveKey]:
    """The ways to average among the measured operations: all composites, and a plain all_reduce if no composite
    all_reduce, which also divides, was measured."""
    keys = list(measured)
    composites = [key for key in keys if key.composite]
    divided = any(key.operation == "all_reduce" for key in composites)
    bare = [] if divided else [key for key in keys if key.operation == "all_reduce" and not key.composite]
    return [*[key for key in bare if key.reduce_op in (None, "sum", "avg")], *composites]


def fastest_spans(times: Mapping[PrimitiveKey, Times]) -> list[Span]:
    """The fastest way to average at each size that all ways were measured at, as ranges of sizes. A way counts among
    the fastest if its shortest time is at most CLEAR above the longest time of each other way."""
    spans: list[Span] = []
    for size in sorted(set.intersection(*map(set, times.values()))) if times else []:
        limit = (1 + CLEAR) * min(max(of_way[size]) for of_way in times.values())
        ways = [way for way, of_way in times.items() if min(of_way[size]) <= limit]
        if spans and [*spans[-1].ways] == ways:
            spans[-1] = spans[-1]._replace(last=size)
        else:
            spans.append(Span(tuple(ways), size, size))
    return spans
