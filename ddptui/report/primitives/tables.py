"""The table of a primitive: its times by message size."""

from collections.abc import Callable, Sequence

from ddptui.analysis.primitive_results import Cell, PrimitiveKey, is_uneven
from ddptui.config.catalog import OPERATIONS, Cadence, primitive_facts
from ddptui.report.rows import off_by
from ddptui.text.tables import RED, Column, Table, cell_at, fill
from ddptui.text.words import NOTHING, US_IN_S, digits, duration, percent, size

MARK = "¹"


def of_cells(cells: Sequence[Cell]) -> Table:
    """The table of one operation, with one line for each size. Columns are named as in nccl-tests."""
    columns = fill(SIZE_COLUMNS, cells)
    return Table(columns, {row: RED for row, cell in enumerate(cells) if cell.wrong or cell.error})


def heading(which: PrimitiveKey, cadence: Cadence) -> str:
    """The heading of an operation's table, e.g. "all_reduce: every rank gets the reduced tensor (pipelined)"."""
    name = str(which) if which.composite else f"{which}: {OPERATIONS[which.operation].moves}"
    return name + {"back_to_back": "", "barrier": " (after barriers)", "pipelined": " (pipelined)"}[cadence]


def _if_bytes(text: Callable[[Cell], str]) -> Callable[[Cell], str]:
    """A cell with the text, or with a dash for a primitive that moves no data, such as barrier."""
    return lambda row: text(row) if primitive_facts(row.operation, composite=row.composite).has_bytes else NOTHING


def _time(figure: str) -> Callable[[Cell], str]:
    return cell_at(f"time_us.{figure}", lambda us: duration(us * US_IN_S))


def _in_flight(row: Cell) -> str:
    return str(row.in_flight) if row.in_flight > 1 else NOTHING


def _marked(row: Cell) -> str:
    return f"{MARK} {_time('median')(row)}" if is_uneven(row) else _time("median")(row)


def _ratio(row: Cell) -> str:
    return off_by(row.ratio.median, row.ratio.low, row.ratio.high) if row.ratio else NOTHING


SIZE_COLUMNS: tuple[Column[Cell], ...] = (
    Column(
        "size", _if_bytes(cell_at("bytes", size)), 100, about="Size of the tensor, with all parts; 1 KB is 1024 bytes."
    ),
    Column("calls", cell_at("calls"), 70, about="Number of timed calls, without the warm-up."),
    Column("in flight", _in_flight, 96, about="Calls in flight at once; the time of the group is divided by it."),
    Column("min", _time("min"), 90, about="The shortest call; the time of a call is a mean over the ranks."),
    Column("median", _marked, 99, about=f"Half of the calls took less; {MARK}: calls vary too much for one figure."),
    Column("p90", _time("p90"), 82, about="Nine of ten calls took less than this."),
    Column("p99", _time("p99"), 92, about="99 of 100 calls took less than this."),
    Column("CV", cell_at("cv", percent), 93, about="Standard deviation of the calls in percent of their mean."),
    Column("mean", _time("mean"), 81, about="The mean over all calls, which nccl-tests reports."),
    Column("algbw", cell_at("algbw_gb_s", digits), 91, about="The size divided by the mean time, in GB/s (1e9 bytes)."),
    Column(
        "busbw",
        cell_at("busbw_gb_s", digits),
        97,
        about="algbw × the factor of nccl-tests: the bandwidth of a link.",
    ),
    Column("slowest", cell_at("slowest", "rank {}".format), 60, about="The rank whose calls took longest on average."),
    Column("ratio", _ratio, 98, about="Of two runs: B's median over A's, with the least and most of their launches."),
    Column("#wrong", _if_bytes(cell_at("wrong")), 98, about="Wrong elements, on all ranks; every element is checked."),
)
