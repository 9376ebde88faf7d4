"""The table of ranks: state, progress, times of the last steps, use of the machine."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import ClassVar, NamedTuple

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.widgets import DataTable

from ddptui.analysis.gpu_work import tflops
from ddptui.analysis.time_source import HOST_TIME, is_host_time
from ddptui.live.monitor import RunMonitor
from ddptui.live.rank_states import STALLED, phases_ms, wait_ms
from ddptui.live.state import RankState
from ddptui.report.ranks import SLOWED
from ddptui.text.drawing import shorten
from ddptui.text.tables import GAP, fit, total
from ddptui.text.units import MB, NOTHING, digits, part_of, size
from ddptui.tui.widgets.lists import ROW_KEYS
from ddptui.wire.messages import Gpu

BAR_CELLS = 10
SHORT_STATE = 14  # cells that a state needs: where ranks have GPUs, it gives way to their figures
ON_GPUS = {"samples/s": 99, "progress": 89}  # what these columns are worth there


class Row(NamedTuple):
    """What the cells of one rank are made from."""

    rank: RankState
    state: str
    phases: list[float] | None
    wait_ms: float | None
    is_culprit: bool


class Column(NamedTuple):
    """A column of the table of ranks."""

    header: str
    width: int
    worth: int  # where space is short, the column of least worth goes first
    cell: Callable[[Row], str]
    about: str  # a sentence
    figure: Callable[[RankState], float | None] | None = None  # of a GPU: the column shows if some rank has one


def progress(rank: RankState) -> str:
    """Return a bar and the percentage: 42 of 60 steps are ███████░░░ 70%. How many there will be may not be known: then
    the bar is for this pass over the data."""
    if rank.steps is None and rank.step:
        if rank.of_epoch is None:
            return f"step {rank.step}"
        epoch = f"ep. {rank.position.epoch} "
        return epoch + _bar(rank.of_epoch, max(0, BAR_CELLS - len(epoch)))
    return _bar(min(1.0, rank.step / rank.steps) if rank.steps else 0.0, BAR_CELLS)


def _bar(share: float, cells: int) -> str:
    full = int(share * cells)
    return f"{'█' * full}{'░' * (cells - full)} {share:4.0%}"


def _optional(value: float | None, form: str) -> str:
    return format(value, form) if value is not None else NOTHING


def _short_state(row: Row) -> str:
    words = row.state.replace("waiting for rank", "waits for")
    words = words if len(words) <= SHORT_STATE else words.partition(" (")[0]  # without its seconds
    return f"{words}{' ◀' if row.is_culprit else ''}"


def _rate(row: Row) -> str:
    return _optional(row.rank.samples_per_s, ",.0f").replace(",", " ")


def _tflops(row: Row) -> str:
    return digits(tflops(row.rank.flops, row.rank.samples_per_s))


def _phase(place: int) -> Callable[[Row], str]:
    return lambda row: f"{row.phases[place]:.1f}{HOST_TIME * is_host_time(row.rank.device)}" if row.phases else NOTHING


def _meter(figure: Callable[[RankState], float | None]) -> Callable[[Row], str]:
    """Return a cell for a figure of the last heartbeat, which is out of date once the rank has stalled."""
    return lambda row: NOTHING if row.state.startswith(STALLED) else _optional(figure(row.rank), ".0f")


def _megabytes(count: int | None) -> str:
    return f"{count / MB:.0f} MB" if count is not None else NOTHING


def _own_memory(rank: RankState) -> str:
    """What its tensors take, of what torch holds for them."""
    if rank.gpu_bytes is None or rank.gpu_reserved_bytes is None:
        return _megabytes(rank.gpu_bytes)
    return part_of(rank.gpu_bytes, rank.gpu_reserved_bytes)


def _gpu_memory(gpu: Gpu) -> str:
    if gpu.used_bytes is None or gpu.total_bytes is None:
        return size(gpu.used_bytes) if gpu.used_bytes is not None else NOTHING
    return part_of(gpu.used_bytes, gpu.total_bytes)


def _clock(row: Row) -> str:
    mhz = _meter(lambda rank: rank.gpu.sm_mhz)(row)
    return f"{SLOWED if row.rank.gpu.held_back is True and mhz != NOTHING else ''}{mhz}"


STATE = Column(
    "state",
    24,
    99,
    lambda row: f"{row.state}{' ◀ culprit' if row.is_culprit else ''}",
    "What it does now; ◀ culprit: the others wait for it.",
)
COLUMNS = (
    Column("rank", 4, 100, lambda row: str(row.rank.rank), "The rank's number; ranks count from 0."),
    STATE,
    Column(
        "progress",
        16,
        98,
        lambda row: progress(row.rank),
        "How many of its steps are over; where their number is not known, how much of the epoch.",
    ),
    Column("step", 6, 50, lambda row: str(row.rank.step), "How many steps it has finished."),
    Column(
        "loss",
        7,
        90,
        lambda row: _optional(row.rank.loss, ".4f"),
        "The loss of its last step, of its own part of the batch; none where it is not a finite number.",
    ),
    Column(
        "gpu %",
        5,
        99,
        _meter(lambda rank: rank.gpu.busy_percent),
        "How busy its GPU is. Waiting in NCCL counts as busy, too: see the waits.",
        lambda rank: rank.gpu.busy_percent,
    ),
    Column(
        "gpu used",
        10,
        99,
        lambda row: _gpu_memory(row.rank.gpu),
        "The memory of its GPU that is in use by all programs, of all that it has.",
        lambda rank: rank.gpu.used_bytes,
    ),
    Column(
        "W", 4, 99, _meter(lambda rank: rank.gpu.watts), "The power of its GPU, in watts.", lambda rank: rank.gpu.watts
    ),
    Column(
        "MHz",
        5,
        99,
        _clock,
        f"The clock of its GPU's processors; {SLOWED}: heat or the power supply lowers it.",
        lambda rank: rank.gpu.sm_mhz,
    ),
    Column("samples/s", 9, 60, _rate, "How many samples a second it trains on, over the last steps."),
    Column(
        "TFLOP/s",
        7,
        99,
        _tflops,
        "10^12 operations a second: those of forward, loss and backward for a sample, as counted before the first step "
        "(matrix products and convolutions), times samples/s. Of a watched training nobody counts them.",
        lambda rank: rank.flops,
    ),
    Column("data", 7, 64, _phase(0), "Time to get a batch, in ms, the median of its last steps."),
    Column("forward", 7, 66, _phase(1), "Time in forward, with the loss, likewise."),
    Column("backward", 8, 67, _phase(2), "Time in backward, likewise; torch DDP averages in it."),
    Column("aggr.", 6, 68, _phase(3), "Time in the aggregation, likewise, with the waiting in it."),
    Column("optim.", 7, 63, _phase(4), "Time in the optimizer's step, likewise."),
    Column(
        "wait",
        6,
        95,
        lambda row: _optional(row.wait_ms, ".1f"),
        "How long it waited for late ranks in a step, in ms, the median of the last steps.",
    ),
    Column("cpu %", 5, 70, _meter(lambda rank: rank.cpu_percent), "Its process's use of the cores; 100 is one core."),
    Column("memory", 8, 55, lambda row: _megabytes(row.rank.rss_bytes), "The memory of its process."),
    Column(
        "gpu mem.",
        10,
        69,
        lambda row: _own_memory(row.rank),
        "The GPU memory that its tensors take, of what torch holds for them: tensors/held.",
        lambda rank: rank.gpu_bytes,
    ),
    Column(
        "°C",
        3,
        58,
        _meter(lambda rank: rank.gpu.celsius),
        "The temperature of its GPU.",
        lambda rank: rank.gpu.celsius,
    ),
)
LEFT = ("state", "progress")
PADDING = 2  # cells, which DataTable adds to every column
LINE = "line"  # the key of the table's only column


def fitting(ranks: Collection[RankState], width: int) -> list[Column]:
    """Return the columns that fit, without those of GPUs that no rank reports. If a rank reports one, the figures that
    one looks at first have precedence, and the state may be short."""
    shown = [
        column for column in COLUMNS if not column.figure or any(column.figure(rank) is not None for rank in ranks)
    ]
    if any(column.figure for column in shown):
        shown = [column._replace(worth=ON_GPUS.get(column.header, column.worth)) for column in shown]
        room = width - total([column.width for column in shown if column.worth >= STATE.worth])
        if room < 0:
            short = STATE._replace(width=max(SHORT_STATE, STATE.width + room), cell=_short_state)
            shown[COLUMNS.index(STATE)] = short
    return fit(shown, width)


class RankTable(DataTable[Text], inherit_bindings=False):
    """Shows a row per rank. The columns always fit, so left, right and enter are free for the screen."""

    DEFAULT_CSS = "RankTable { overflow-x: hidden; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        *ROW_KEYS,
        Binding("down", "cursor_down", "One line down", show=False),
        Binding("up", "cursor_up", "One line up", show=False),
        Binding("home", "scroll_top", "To the start", show=False),
        Binding("end", "scroll_bottom", "To the end", show=False),
        Binding("pagedown", "page_down", "One page down", show=False),
        Binding("pageup", "page_up", "One page up", show=False),
    ]

    def __init__(self, id: str, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes, cursor_type="row", zebra_stripes=False, cell_padding=1)
        self._columns: list[Column] = []
        self._shown: dict[int, Text] = {}

    @property
    def rank(self) -> int | None:
        """The rank under the cursor."""
        return self.cursor_row if 0 <= self.cursor_row < self.row_count else None

    @property
    def explained(self) -> list[tuple[str, str]]:
        """The headers of the columns on the screen, with what they show."""
        return [(column.header, column.about) for column in self._columns]

    def show(self, watched: RunMonitor, states: Mapping[int, str], ranks: int) -> None:
        """Update the visible rows. `states`: by rank, in words. `ranks`: the world size."""
        live, steps = watched.live, watched.judged
        waits_known = watched.judgement is not None and not watched.judgement.analysis.withheld
        self._lay_out(ranks, live.ranks.values())
        first = int(self.scroll_y)
        # Only visible rows, or a few more: there may be a thousand ranks.
        for number in range(first, min(first + self.app.size.height, ranks)):
            rank = live.ranks.get(number) or RankState(rank=number, pid=0, device="")
            state = states.get(number, "launching" if live.status == "running" else "")
            waited = wait_ms(steps, number) if waits_known else None
            row = Row(rank, state, phases_ms(rank, steps), waited, is_culprit=number == watched.culprit)
            line = _line(self._columns, [column.cell(row) for column in self._columns], row.state)
            if self._shown.get(number) != line:
                self._shown[number] = line
                self.update_cell(str(number), LINE, line)

    def _lay_out(self, ranks: int, known: Collection[RankState]) -> None:
        width = self.scrollable_content_region.width
        columns = fitting(known, width - PADDING)
        if columns == self._columns and ranks == self.row_count:
            return
        chosen = self.cursor_row
        self.clear(columns=True)
        self._columns, self._shown = columns, {}
        # One column, with the others laid out in its text: drawing a cell is slow, and nearly all change every time.
        header = _line(columns, [column.header for column in columns])
        self.add_column(header, width=max(1, width - PADDING), key=LINE)
        for rank in range(ranks):
            self.add_row(Text(), key=str(rank))  # empty until it is seen
        self.move_cursor(row=min(chosen, ranks - 1))


def _line(columns: Sequence[Column], cells: Sequence[str], state: str = "") -> Text:
    # Bold and italic work in every theme, and without colors.
    style = "bold" if state.startswith(("stalled", "failed")) else "italic" if "waiting" in state else ""
    line = Text(no_wrap=True, overflow="crop")
    for column, cell in zip(columns, cells, strict=True):
        shown = shorten(cell, column.width)
        text = shown.ljust(column.width) if column.header in LEFT else shown.rjust(column.width)
        line.append(" " * GAP if line else "").append(text, style if column.header == "state" else "")
    return line
