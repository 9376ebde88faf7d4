"""The table of a primitive: its times by size."""

from collections.abc import Callable, Sequence

from ddptui.analysis.primitives.cells import PrimitiveKey, is_uneven
from ddptui.analysis.primitives.results import Cell, TimeUs
from ddptui.config.primitives import OPERATIONS, Cadence, primitive_facts
from ddptui.text.tables import RED, Column, Table, fill
from ddptui.text.units import NOTHING, US_IN_S, digits, duration, percent, size

MARK = "¹"


def of_cells(cells: Sequence[Cell]) -> Table:
    """One operation, a line a size, named as in nccl-tests."""
    columns = fill(SIZE_COLUMNS, cells)
    return Table(columns, {row: RED for row, cell in enumerate(cells) if cell.wrong or cell.error})


def heading(which: PrimitiveKey, cadence: Cadence) -> str:
    """all_reduce: all tensors as one to all (pipelined)."""
    name = str(which) if which.composite else f"{which}: {OPERATIONS[which.operation].moves}"
    return name + {"back_to_back": "", "barrier": " (after barriers)", "pipelined": " (pipelined)"}[cadence]


def _if_bytes(text: Callable[[Cell], str]) -> Callable[[Cell], str]:
    """The text; a dash for a primitive that moves no bytes, and so has no size and no elements to be wrong."""
    return lambda row: text(row) if primitive_facts(row.operation, composite=row.composite).has_bytes else NOTHING


def _time(figure: Callable[[TimeUs], float]) -> Callable[[Cell], str]:
    return lambda row: duration(figure(row.time_us) * US_IN_S if row.time_us else None)


def _marked(row: Cell) -> str:
    median = _time(lambda time: time.median)(row)
    return f"{MARK} {median}" if is_uneven(row) else median


MEANINGS = {  # by header
    "size": "The tensor's size, 1 KB being 1024 bytes; where each rank gives or gets a part, all parts together.",
    "calls": "How many calls were timed, without the warm-up.",
    "in flight": "How many calls were under way at once. Times are then of a group of so many, divided by their "
    "number.",
    "min": "The shortest call, each a mean over the ranks.",
    "median": f"Half of the calls took less, half took more. {MARK} marks sizes whose calls differ so much that no one "
    "figure stands for them.",
    "p90": "Nine of ten calls took less than this.",
    "p99": "99 of 100 calls took less than this.",
    "CV": "How much the calls differ: their standard deviation as a part of their mean.",
    "mean": "The mean over all calls, which nccl-tests reports.",
    "algbw": "Algorithm bandwidth: the size over the mean time, in GB/s of 1e9 bytes.",
    "busbw": "Bus bandwidth: algbw times what nccl-tests multiplies it with, so that it compares to the bandwidth of "
    "a wire whatever the operation and the number of ranks.",
    "slowest": "The rank whose calls took longest on average.",
    "#wrong": "How many elements had a wrong value, on all ranks together; every element was checked.",
}
_COLUMNS: tuple[Column[Cell], ...] = (
    Column("size", _if_bytes(lambda cell: size(cell.bytes)), 100),
    Column("calls", lambda row: str(row.calls), 70),
    Column("in flight", lambda row: str(row.in_flight) if row.in_flight > 1 else NOTHING, 96),
    Column("min", _time(lambda time: time.min), 90),
    Column("median", _marked, 99),
    Column("p90", _time(lambda time: time.p90), 82),
    Column("p99", _time(lambda time: time.p99), 92),
    Column("CV", lambda row: percent(row.cv), 93),
    Column("mean", _time(lambda time: time.mean), 81),
    Column("algbw", lambda row: digits(row.algbw_gb_s), 91),
    Column("busbw", lambda row: digits(row.busbw_gb_s), 97),
    Column("slowest", lambda row: NOTHING if row.slowest is None else f"rank {row.slowest}", 60),
    Column("#wrong", _if_bytes(lambda cell: str(cell.wrong)), 98),
)
SIZE_COLUMNS = tuple(column._replace(about=MEANINGS[column.header]) for column in _COLUMNS)
