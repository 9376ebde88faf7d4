"""Cells of primitives: which operation each is, several launches as one, and whether a median means something. Pure."""

from collections.abc import Iterable, Sequence
from statistics import median
from typing import NamedTuple

import msgspec

from ddptui.analysis.primitives.results import Cell, PrimitivesResult, TimeUs
from ddptui.config.primitives import ReduceOpName, primitive_title


class PrimitiveKey(NamedTuple):
    """An operation or, as composite, a strategy's; by one of the operators where it takes one."""

    operation: str
    composite: bool = False
    reduce_op: ReduceOpName | None = None

    def __str__(self) -> str:
        name = primitive_title(self.operation, composite=self.composite)
        return name if self.reduce_op in (None, "sum") else f"{name} ({self.reduce_op})"


def key_of(cell: Cell) -> PrimitiveKey:
    return PrimitiveKey(cell.operation, cell.composite, cell.reduce_op)


def combined(repeats: Sequence[PrimitivesResult]) -> PrimitivesResult:
    """What there is to see is that of the first launch; calls are added up."""
    cells: dict[tuple[PrimitiveKey, int], list[Cell]] = {}
    for cell in (cell for repeat in repeats for cell in repeat.cells):
        cells.setdefault((key_of(cell), cell.bytes), []).append(cell)
    return msgspec.structs.replace(repeats[0], cells=[_combined_cell(several) for several in cells.values()])


def by_operation(cells: Iterable[Cell]) -> dict[PrimitiveKey, list[Cell]]:
    """In the order in which they come, each one's from the smallest size to the largest."""
    found: dict[PrimitiveKey, list[Cell]] = {}
    for cell in cells:
        found.setdefault(key_of(cell), []).append(cell)
    return {key: sorted(several, key=lambda cell: cell.bytes) for key, several in found.items()}


def _combined_cell(cells: Sequence[Cell]) -> Cell:
    slowest = max(cells, key=lambda cell: cell.slowest_us or 0.0)
    time = _median_times([cell.time_us for cell in cells if cell.time_us])
    longer = time.mean / slowest.time_us.mean if time and slowest.time_us else 1.0
    return msgspec.structs.replace(
        slowest,
        calls=sum(cell.calls for cell in cells),
        time_us=time,
        cv=_median(cell.cv for cell in cells),
        algbw_gb_s=slowest.algbw_gb_s and slowest.algbw_gb_s / longer,
        busbw_gb_s=slowest.busbw_gb_s and slowest.busbw_gb_s / longer,
        wrong=sum(cell.wrong for cell in cells),
        error=next((cell.error for cell in cells if cell.error), None),
    )


def _median_times(times: Sequence[TimeUs]) -> TimeUs | None:
    names = TimeUs.__struct_fields__
    return TimeUs(**{name: median(getattr(time, name) for time in times) for name in names}) if times else None


def _median(figures: Iterable[float | None]) -> float | None:
    told = [figure for figure in figures if figure is not None]
    return median(told) if told else None


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
