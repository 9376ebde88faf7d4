"""The live table of ranks: state, progress, times of the last steps, and load."""

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
from ddptui.text.units import NOTHING, digits, part_of, size
from ddptui.tui.widgets.last_steps import MARK
from ddptui.tui.widgets.lists import ROW_KEYS

BAR_CELLS = 10
SHORT_STATE = 14  # minimum width of the state: with GPUs, their figures get the rest
ON_GPUS = {"samples/s": 99, "progress": 89}  # worth of these columns for ranks on GPUs


Figure = Callable[[RankState], float | None]


class Row(NamedTuple):
    """The data of one rank's cells."""

    rank: RankState
    state: str
    phases: list[float] | None
    wait_ms: float | None
    is_culprit: bool


class Column(NamedTuple):
    """A column of the table of ranks."""

    header: str
    width: int
    worth: int  # if space is short, columns of the least worth are left out first
    cell: Callable[[Row], str]
    about: str  # a sentence for the help
    figure: Figure | None = None  # a GPU figure: the column appears if any rank has it


def progress(rank: RankState) -> str:
    """Return a bar and a percentage: 42 of 60 steps are ███████░░░ 70%. If the total is unknown, the bar shows the
    current epoch."""
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


def _phase(place: int) -> Callable[[Row], str]:
    return lambda row: f"{row.phases[place]:.1f}{HOST_TIME * is_host_time(row.rank.device)}" if row.phases else NOTHING


def _meter(figure: Figure) -> Callable[[Row], str]:
    """Return a cell for a figure of the last heartbeat; empty if the rank is stalled, since it is outdated then."""
    return lambda row: NOTHING if row.state.startswith(STALLED) else _optional(figure(row.rank), ".0f")


def _on_gpus(
    header: str, width: int, worth: int, about: str, figure: Figure, cell: Callable[[Row], str] | None = None
) -> Column:
    """Return a column that is shown if any rank has the figure."""
    return Column(header, width, worth, cell or _meter(figure), about, figure)


def _memory(used: int | None, total: int | None) -> str:
    if used is None or total is None:
        return size(used) if used is not None else NOTHING
    return part_of(used, total)


def _clock(row: Row) -> str:
    mhz = _meter(lambda rank: rank.gpu.sm_mhz)(row)
    return f"{SLOWED if row.rank.gpu.held_back is True and mhz != NOTHING else ''}{mhz}"


def _short_state(row: Row) -> str:
    words = row.state.replace("waiting for rank", "waits for")
    words = words if len(words) <= SHORT_STATE else words.partition(" (")[0]  # without the seconds
    return f"{words}{' ◀' if row.is_culprit else ''}"


STATE = Column(
    "state",
    24,
    99,
    lambda row: f"{row.state}{MARK * row.is_culprit}",
    f"What the rank does now;{MARK}: the others wait for it.",
)
COLUMNS = (
    Column("rank", 4, 100, lambda row: str(row.rank.rank), "The rank's number; ranks count from 0."),
    STATE,
    Column(
        "progress", 16, 98, lambda row: progress(row.rank), "The part of its steps, or else of the epoch, that is done."
    ),
    Column("step", 6, 50, lambda row: str(row.rank.step), "The number of finished steps."),
    Column(
        "loss",
        7,
        90,
        lambda row: _optional(row.rank.loss, ".4f"),
        "The loss of its last step, over its own part of the batch.",
    ),
    _on_gpus(
        "gpu %", 5, 99, "How busy its GPU is. Waiting in NCCL also counts as busy.", lambda rank: rank.gpu.busy_percent
    ),
    _on_gpus(
        "gpu used",
        10,
        99,
        "The memory of its GPU that all programs use, and its total memory.",
        lambda rank: rank.gpu.used_bytes,
        lambda row: _memory(row.rank.gpu.used_bytes, row.rank.gpu.total_bytes),
    ),
    _on_gpus("W", 4, 99, "The power of its GPU, in watts.", lambda rank: rank.gpu.watts),
    _on_gpus(
        "MHz",
        5,
        99,
        f"The SM clock of its GPU; {SLOWED}: heat or power lowers it.",
        lambda rank: rank.gpu.sm_mhz,
        _clock,
    ),
    Column(
        "samples/s",
        9,
        60,
        lambda row: _optional(row.rank.samples_per_s, ",.0f").replace(",", " "),
        "Samples per second, over the last steps.",
    ),
    _on_gpus(
        "TFLOP/s",
        7,
        99,
        "10^12 operations per second: those of forward, loss and backward for a sample, times samples/s. Not "
        "counted in a watched training.",
        lambda rank: rank.flops,
        lambda row: digits(tflops(row.rank.flops, row.rank.samples_per_s)),
    ),
    Column("data", 7, 64, _phase(0), "Time to get a batch, in ms, median over the last steps."),
    Column("forward", 7, 66, _phase(1), "Time in forward and loss, in ms, median over the last steps."),
    Column("backward", 8, 67, _phase(2), "Time in backward, likewise; includes the averaging of torch DDP."),
    Column("aggr.", 6, 68, _phase(3), "Time in the aggregation, likewise; includes waiting."),
    Column("optim.", 7, 63, _phase(4), "Time in the optimizer's step, likewise."),
    Column("wait", 6, 95, lambda row: _optional(row.wait_ms, ".1f"), "Time waiting for late ranks, likewise."),
    Column("cpu %", 5, 70, _meter(lambda rank: rank.cpu_percent), "The CPU use of its process; 100 is one core."),
    Column("memory", 8, 55, lambda row: _memory(row.rank.rss_bytes, None), "The memory of its process."),
    _on_gpus(
        "gpu mem.",
        10,
        69,
        "GPU memory allocated for tensors, and reserved by torch: allocated/reserved.",
        lambda rank: rank.gpu_bytes,
        lambda row: _memory(row.rank.gpu_bytes, row.rank.gpu_reserved_bytes),
    ),
    _on_gpus("°C", 3, 58, "The temperature of its GPU.", lambda rank: rank.gpu.celsius),
)
LEFT = ("state", "progress")
PADDING = 2  # cells that DataTable adds to every column
LINE = "line"  # key of the table's only column


def fitting(ranks: Collection[RankState], width: int) -> list[Column]:
    """Return the columns that fit, without GPU columns that no rank reports. If there are any, the most important GPU
    figures have precedence, and the state may be shortened."""
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
    """Shows a row per rank. The columns always fit, so the screen can use the keys left, right and enter."""

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
        """The headers of the visible columns, each with its explanation."""
        return [(column.header, column.about) for column in self._columns]

    def show(self, watched: RunMonitor, states: Mapping[int, str], ranks: int) -> None:
        """Update the visible rows. `states`: rank -> words; `ranks`: the world size."""
        live, steps = watched.live, watched.judged
        waits_known = watched.judgement is not None and not watched.judgement.analysis.withheld
        self._lay_out(ranks, live.ranks.values())
        first = int(self.scroll_y)
        # Only the visible rows, or a few more, since there may be a thousand ranks.
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
        # A single table column contains all columns as text: drawing a cell is slow, and nearly all of them change.
        header = _line(columns, [column.header for column in columns])
        self.add_column(header, width=max(1, width - PADDING), key=LINE)
        for rank in range(ranks):
            self.add_row(Text(), key=str(rank))  # filled when it becomes visible
        self.move_cursor(row=min(chosen, ranks - 1))


def _line(columns: Sequence[Column], cells: Sequence[str], state: str = "") -> Text:
    # Bold and italic work in every theme, and without color.
    style = "bold" if state.startswith(("stalled", "failed")) else "italic" if "waiting" in state else ""
    line = Text(no_wrap=True, overflow="crop")
    for column, cell in zip(columns, cells, strict=True):
        shown = shorten(cell, column.width)
        text = shown.ljust(column.width) if column.header in LEFT else shown.rjust(column.width)
        line.append(" " * GAP if line else "").append(text, style if column.header == "state" else "")
    return line
