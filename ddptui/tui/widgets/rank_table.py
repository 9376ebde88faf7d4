"""The live table of ranks: state, progress, times of the last steps, and load."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ddptui.analysis.gpu_work import tflops
from ddptui.analysis.policy import HOST_TIME, is_host_time
from ddptui.live.headline import STALLED, phases_ms, wait_ms
from ddptui.live.monitor import RunMonitor
from ddptui.live.state import RankState
from ddptui.report.ranks import SLOWED
from ddptui.text.drawing import shorten
from ddptui.text.tables import GAP, Column, Filled, cell_at, fill, fit, line, total, value_at
from ddptui.text.words import NOTHING, digits, part_of, size
from ddptui.tui.widgets.last_steps import MARK
from ddptui.tui.widgets.tables import LabTable, RowMark

BAR_CELLS = 10
STATE_CELLS, SHORT_STATE = 24, 16  # the short state is for narrow tables of ranks on GPUs
OF_GPUS = ("gpu %", "gpu used", "W", "MHz", "TFLOP/s", "gpu mem.", "°C")  # columns that appear if any rank has a value
ON_GPUS = {"samples/s": 99, "progress": 89}  # worth of these columns for ranks on GPUs
GPU_MEMORY = "The memory of its GPU that all programs use, and its total memory."
TENSORS = "GPU memory allocated for tensors, and reserved by torch: allocated/reserved."
TFLOPS = "10^12 operations a second, of forward, loss and backward. Not counted in a watched training."


class Row(NamedTuple):
    """The data of one rank's cells."""

    rank: RankState
    state: str
    phases: list[float] | None
    wait_ms: float | None
    is_culprit: bool


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


def _state(row: Row) -> str:
    return shorten(f"{row.state}{MARK * row.is_culprit}", STATE_CELLS)


def _short_state(row: Row) -> str:
    words = row.state.replace("waiting for rank", "waits for")
    words = words if len(words) <= SHORT_STATE - 2 else words.partition(" (")[0]  # without the seconds
    return shorten(f"{words}{' ◀' if row.is_culprit else ''}", SHORT_STATE)


def _phase(place: int) -> Callable[[Row], str]:
    return lambda row: f"{row.phases[place]:.1f}{HOST_TIME * is_host_time(row.rank.device)}" if row.phases else NOTHING


def _meter(path: str) -> Callable[[Row], str]:
    """Return a cell for a figure of the last heartbeat; blank if the rank is stalled, since it is outdated then."""
    shown = cell_at(path, "{:.0f}".format)
    return lambda row: "" if row.state.startswith(STALLED) and shown(row) != NOTHING else shown(row)


def _memory(used: str, total: str = "") -> Callable[[Row], str]:
    """Return a cell with a number of bytes, and the total if that is known. `used`, `total`: fields of a rank."""

    def cell(row: Row) -> str:
        of, whole = value_at(row.rank, used), value_at(row.rank, total) if total else None
        if not isinstance(of, int):
            return NOTHING
        return part_of(of, whole) if isinstance(whole, int) else size(of)

    return cell


def _clock(row: Row) -> str:
    mhz = _meter("rank.gpu.sm_mhz")(row)
    return f"{SLOWED if row.rank.gpu.held_back is True and mhz else ''}{mhz}"


def _samples(row: Row) -> str:
    return cell_at("rank.samples_per_s", "{:,.0f}".format)(row).replace(",", " ")


def _tflops(row: Row) -> str:
    return digits(tflops(row.rank.flops, row.rank.samples_per_s))


COLUMNS: tuple[Column[Row], ...] = (
    Column("rank", cell_at("rank.rank"), 100, about="The rank's number; ranks count from 0."),
    Column("state", _state, 99, True, "", f"What the rank does now;{MARK}: the others wait for it.", STATE_CELLS),
    Column(
        "progress", lambda row: progress(row.rank), 98, True, "", "The finished part of its steps, or of the epoch."
    ),
    Column("step", cell_at("rank.step"), 50, about="The number of finished steps.", wide=6),
    Column("loss", cell_at("rank.loss", "{:.4f}".format), 90, about="Its last step's loss, over its samples.", wide=7),
    Column("gpu %", _meter("rank.gpu.busy_percent"), 99, about="How busy its GPU is, waits in NCCL included."),
    Column("gpu used", _memory("gpu.used_bytes", "gpu.total_bytes"), 99, about=GPU_MEMORY, wide=9),
    Column("W", _meter("rank.gpu.watts"), 99, about="The power of its GPU, in watts.", wide=3),
    Column("MHz", _clock, 99, about=f"The SM clock of its GPU; {SLOWED}: heat or power lowers it.", wide=5),
    Column("samples/s", _samples, 60, about="Samples per second, over the last steps."),
    Column("TFLOP/s", _tflops, 99, about=TFLOPS),
    Column("data", _phase(0), 64, about="Time to get a batch, in ms, median over the last steps.", wide=7),
    Column("forward", _phase(1), 66, about="Time in forward and loss, likewise."),
    Column("backward", _phase(2), 67, about="Time in backward, likewise; includes the averaging of torch DDP."),
    Column("aggr.", _phase(3), 68, about="Time in the aggregation, likewise; includes waiting.", wide=6),
    Column("optim.", _phase(4), 63, about="Time in the optimizer's step, likewise.", wide=7),
    Column("wait", cell_at("wait_ms", "{:.1f}".format), 95, about="Time waiting for late ranks, likewise.", wide=6),
    Column("cpu %", _meter("rank.cpu_percent"), 70, about="The CPU use of its process; 100 is one core."),
    Column("memory", _memory("rss_bytes"), 55, about="The memory of its process.", wide=8),
    Column("gpu mem.", _memory("gpu_bytes", "gpu_reserved_bytes"), 69, about=TENSORS, wide=10),
    Column("°C", _meter("rank.gpu.celsius"), 58, about="The temperature of its GPU.", wide=3),
)


def fitting(rows: Sequence[Row], width: int) -> list[Filled]:
    """Return the columns that fit. If ranks are on GPUs, the most important figures of these have precedence, and the
    state may be shortened."""
    shown = [column for column in fill(COLUMNS, rows) if not (column.key in OF_GPUS and column.is_empty)]
    if any(column.key in OF_GPUS for column in shown):
        shown = [column._replace(worth=ON_GPUS.get(column.key, column.worth)) for column in shown]
        if total([column.width for column in shown if column.worth >= ON_GPUS["samples/s"]]) > width:
            shown[1] = shown[1]._replace(cells=[_short_state(row) for row in rows], wide=SHORT_STATE)
    return fit(shown, width)


class RankTable(LabTable):
    """Shows a row per rank."""

    _lines: Mapping[str, str] = {}  # by rank

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave the keys left, right and enter to the screen."""
        return action not in ("turn", "select_cursor")

    @property
    def rank(self) -> int | None:
        """The rank under the cursor."""
        return self.cursor_row if 0 <= self.cursor_row < self.row_count else None

    def show(self, watched: RunMonitor, states: Mapping[int, str], ranks: int) -> None:
        """Update the visible rows. `states`: rank -> words; `ranks`: the world size."""
        live, steps = watched.live, watched.judged
        waits_known = watched.judgement is not None and not watched.judgement.analysis.withheld
        first, rows = int(self.scroll_y), []
        # Only the visible rows, or a few more, since there may be a thousand ranks.
        for number in range(first, min(first + self.app.size.height, ranks)):
            rank = live.ranks.get(number) or RankState(rank=number, pid=0, device="")
            state = states.get(number, "launching" if live.status == "running" else "")
            waited = wait_ms(steps, number) if waits_known else None
            rows.append(Row(rank, state, phases_ms(rank, steps), waited, is_culprit=number == watched.culprit))
        width = self.scrollable_content_region.width - GAP
        columns = fitting(rows, width)
        widths, left = [column.width for column in columns], [column.left for column in columns]
        of_table = zip(*([column.header, *column.cells] for column in columns), strict=True)
        header, *lines = (line(cells, widths, left) for cells in of_table)
        self._lines = {**self._lines, **{str(row.rank.rank): of for row, of in zip(rows, lines, strict=True)}}
        names = [str(number) for number in range(ranks)]
        marks: dict[str, RowMark] = {
            str(row.rank.rank): "problem" for row in rows if row.state.startswith((STALLED, "failed"))
        }
        # A single column holds whole lines: drawing a cell is slow, and nearly all of them change.
        cells = [self._lines.get(name, "") for name in names]
        self.fill([Filled(header, cells, left=True, key="line", wide=width)], names, marks)
        self.explained = [(column.header, column.about) for column in columns]
