"""The live table of ranks, and drawings of their last steps: arrivals, and a timeline of what each rank did."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ddptui.analysis.gpu_work import tflops
from ddptui.analysis.policy import HOST_TIME, is_host_time
from ddptui.analysis.waits import AlignedStep
from ddptui.live.headline import STALLED, phases_ms, wait_ms
from ddptui.live.monitor import RunMonitor
from ddptui.live.state import RankState
from ddptui.live.timeline import (
    ArrivalsSummary,
    CellRun,
    RankArrivals,
    cell_of,
    last_steps,
    most_telling,
    row,
    runs,
    summary,
    telling_ranks,
    typical_lateness,
    window,
)
from ddptui.report.ranks import SLOWED
from ddptui.text.drawing import GLYPHS, Line, Span, axis, bar, large, legend, shorten, wrap
from ddptui.text.tables import GAP, Column, Filled, cell_at, fill, fit, line, total, value_at
from ddptui.text.words import MS, MS_PER_S, NOTHING, count, digits, part_of, seconds, size
from ddptui.tui.widgets.charts import Canvas
from ddptui.tui.widgets.tables import LabTable, RowMark
from ddptui.wire.phases import BETWEEN, PHASES

PARTS = ("work", "delay", "arrival", "wait", "transfer", "rest")  # in order of time
EIGHTHS = "·▁▂▃▄▅▆▇█"
ROOM_FOR_WORDS = 60  # width in cells from which on the bars have words beside them
LAST_IN = " last in {} of {}"
MARK = " ◀ culprit"
SOLID = str.maketrans({GLYPHS["work"]: "█", GLYPHS["arrival"]: "▌"})
LABEL = 12  # in large bars, one in so many cells of the width is for the ranks' numbers
FILL = {"data": "┈", "forward": "─", "backward": "═", "aggregate": "┅", "optimizer": "╍", BETWEEN: " "}
WORDS = {"delay": "injected delay"}
LEGEND: Sequence[Line] = [  # the most important first: the last ones may be cut off
    *([(GLYPHS[kind], kind), (f" {WORDS.get(kind, kind)}", "muted")] for kind in ("wait", "transfer", "delay")),
    *([(phase[0] + FILL[phase], phase), (f" {phase}", "muted")] for phase in PHASES),
]
CELLS_PER_STEP = 30  # with fewer cells, short phases would disappear
FEWEST_STEPS, MOST_STEPS = 2, 4


class Arrivals(Canvas):
    """Draws a bar per rank, with medians: work, arrival (┫), wait for the others, transfer, rest of the step."""

    _summary: ArrivalsSummary | None = None
    _culprit: int | None = None
    _last: AlignedStep | None = None

    def show(self, steps: Sequence[AlignedStep], culprit: int | None) -> None:
        """Draw the arrivals in these steps. `culprit`: the rank that their judgement names."""
        last = steps[-1] if steps else None
        if last is not self._last or culprit != self._culprit:
            self._last, self._summary, self._culprit = last, summary(steps), culprit
            self.redraw()

    def draw(self, width: int, height: int) -> Sequence[Line]:
        found = self._summary
        if found is None or len(found.ranks) < 2 or not found.steps or found.withheld:
            return [[(_why_empty(found), "muted")]]
        room = height - 2 if height > 3 else height
        shown = most_telling(found, room if len(found.ranks) <= room else max(1, room - 1), self._culprit)
        is_wide = width >= ROOM_FOR_WORDS
        word, digits = "rank " * is_wide, len(str(found.ranks[-1].rank))
        kinds = {rank.rank: "culprit" if rank.rank == self._culprit else "" for rank in shown}
        labels = {rank: (f"{word}{rank:>{digits}} ", kind) for rank, kind in kinds.items()}
        left, right = len(word) + digits + 1, len(MARK) + len(LAST_IN.format(found.steps, found.steps)) * is_wide
        cells = max(1, width - left - right)
        longest = _longest(shown)
        lines: list[Line] = []
        for rank in shown:
            often = LAST_IN.format(rank.last_in, found.steps) if rank.last_in and is_wide else ""
            mark = MARK if kinds[rank.rank] else ""
            lines.append([labels[rank.rank], *_bar(rank, cells, longest), (often, ""), (mark, "culprit")])
        lines += _below(len(found.ranks) - len(shown), left, axis(cells, longest, "ms"))
        lines.append(_legend(shown, left, width))
        if len(lines) + 1 + len(shown) > height:
            return lines
        largest = max((late for rank in shown for late in rank.lateness[-cells:]), default=0.0) or 1.0
        lines.append([(f"How late, step by step (█ {seconds(largest / MS_PER_S)})", "muted")])
        for rank in shown:
            text = "".join(EIGHTHS[round(late / largest * 8)] for late in rank.lateness[-cells:])
            typical = f" median {seconds(typical_lateness(rank) / MS_PER_S)}" * is_wide
            lines.append([labels[rank.rank], (text.ljust(cells), kinds[rank.rank] or "wait"), (typical, "muted")])
        return lines


class LargeArrivals(Arrivals):
    """Draws bars that fill the room, for a projector, with each rank's number and wait."""

    def draw(self, width: int, height: int) -> Sequence[Line]:
        found = self._summary
        if found is None or len(found.ranks) < 2 or not found.steps or found.withheld:
            return [[(_why_empty(found), "muted")]]
        shown = most_telling(found, max(1, height - 3), self._culprit)
        left, longest = max(len(str(found.ranks[-1].rank)) + 1, width // LABEL), _longest(shown)
        cells = max(1, width - left - len(MARK))
        below = [*_below(len(found.ranks) - len(shown), left, axis(cells, longest, "ms")), _legend(shown, left, width)]
        thick = max(1, (height - len(below)) // len(shown))
        lines = [line for rank in shown for line in self._thick(rank, _bar(rank, cells, longest), left, thick)]
        return [*lines, *map(_solid, below)]

    def _thick(self, rank: RankArrivals, bar: Line, left: int, thick: int) -> list[Line]:
        """Return a rank's bar on several lines, the last one of four or more empty. The middle one says how long the
        rank waits."""
        high, is_culprit = thick - (thick > 3), rank.rank == self._culprit
        number = large(str(rank.rank), left - 1, high) or [str(rank.rank)]
        labels = [*[""] * ((high - len(number)) // 2), *number, *[""] * high][:high]
        wait = f" waits {seconds(rank.wait / MS_PER_S)} "
        lines = [[(label.ljust(left), "culprit" * is_culprit), *_solid(bar)] for label in labels]
        lines[high // 2] = [
            *((text.replace(GLYPHS["wait"] * len(wait), wait, 1), kind) for text, kind in lines[high // 2]),
            (MARK * is_culprit, "culprit"),
        ]
        return [*lines, *[[]] * (thick - high)]


def _solid(line: Line) -> list[Span]:
    """Return a line on which work and arrival are as high as the line: below each other, they make one area."""
    return [(text.translate(SOLID), kind) for text, kind in line]


def _longest(shown: Sequence[RankArrivals]) -> float:
    return max(rank.lead + rank.wait + rank.transfer + rank.rest for rank in shown) or 1.0


def _legend(shown: Sequence[RankArrivals], left: int, width: int) -> Line:
    parts = [part for part in PARTS if part != "delay" or any(rank.delay for rank in shown)]
    return [(" " * left, ""), *wrap(legend(parts), width - left, 1)[0]]


def _below(hidden: int, left: int, scale: str) -> list[Line]:
    """Return the lines below the ranks of a drawing: how many ranks are not drawn, and the axis."""
    more: list[Line] = [[(f"and {count(hidden, 'rank')} more", "muted")]] if hidden else []
    return [*more, [(" " * left, ""), (scale, "muted")]]


def _why_empty(summary: ArrivalsSummary | None) -> str:
    if summary is None:
        return "waiting for the first steps"
    if summary.withheld and summary.apart is None:
        return "times are host times, and devices may be behind: the order of arrival is unknown"
    if summary.withheld:
        return f"the clock error (±{summary.apart:.2g} ms) exceeds the waits: the order of arrival is unknown"
    return "no operation of several ranks in these steps, so no rank waits"


def _bar(rank: RankArrivals, cells: int, longest: float) -> Line:
    """Return a rank's bar, padded to `cells`. The arrival is at the end of work and delay."""
    spans = bar(rank.parts, cells / longest)
    last = max((at for at, (_, kind) in enumerate(spans) if kind in ("work", "delay")), default=None)
    if last is not None:
        text, kind = spans[last]
        spans[last : last + 1] = [(text[:-1], kind), (GLYPHS["arrival"], "work")]
    drawn = sum(len(text) for text, _ in spans)
    return [*spans, (" " * (cells - drawn), "")]


class Timeline(Canvas):
    """Draws a line per rank and, if there is room, a second one with durations in ms."""

    _steps: Sequence[AlignedStep] = ()

    def show(self, steps: Sequence[AlignedStep]) -> None:
        """Draw the last few of these steps."""
        if not (steps and self._steps and steps[-1] is self._steps[-1]):
            self._steps = steps
            self.redraw()

    def draw(self, width: int, height: int) -> Sequence[Line]:
        if not self._steps:
            return [[("waiting for the first steps", "muted")]]
        steps = last_steps(self._steps, min(MOST_STEPS, max(FEWEST_STEPS, width // CELLS_PER_STEP)))
        room = max(1, height - 2)
        ranks = telling_ranks(steps, room if len(steps[0].ranks) <= room else max(1, room - 1))
        left = len(f"{max(steps[0].ranks)} ")
        cells, (begin, end) = max(1, width - left), window(steps)
        tall = height >= 2 * len(ranks) + 2
        lines = [line for rank in ranks for line in _rank(rank, steps, left, cells)[: 2 if tall else 1]]
        scale = axis(cells, (end - begin) / MS, f"ms{HOST_TIME * steps[0].host_time}")
        lines += _below(len(steps[0].ranks) - len(ranks), left, scale)
        return [*lines, *wrap(LEGEND, width, max(1, height - len(lines)))]


def _rank(rank: int, steps: Sequence[AlignedStep], left: int, cells: int) -> list[Line]:
    """Return a line with a rank's phases, and a second line with their durations."""
    within = window(steps)
    cuts = {cell_of(step.ranks[rank].step.begin_ns, within, cells) for step in steps}
    drawn = runs(row(steps, rank), within, cells, cuts)
    lengths: list[Span] = []
    for run in drawn:
        room, text = run.last - run.first, f" {run.ns / MS:.1f}"
        lengths.append(((text if run.what != BETWEEN and len(text) <= room else "").ljust(room), "muted"))
    return [
        [(f"{rank} ".rjust(left), ""), *(span for run in drawn for span in _spans(run, cuts))],
        [(" " * left, ""), *lengths],
    ]


def _spans(run: CellRun, cuts: set[int]) -> Line:
    border = "▏" if run.first in cuts else ""  # at the start of a step
    room = run.last - run.first - len(border)
    fill = GLYPHS.get(run.what) or FILL[run.what]
    word = run.what if run.what in PHASES else ""
    word = word if len(word) < room else word[:1] if room else ""  # the phase's name, or its first letter
    return [(border, "muted"), (word + fill * (room - len(word)), "" if run.what == BETWEEN else run.what)]


BAR_CELLS = 10
STATE_CELLS, SHORT_STATE = 24, 16  # the short state is for narrow tables of ranks on GPUs
OF_GPUS = ("gpu %", "gpu used", "W", "MHz", "TFLOP/s", "gpu mem.", "°C")  # columns that appear if any rank has a value
ON_GPUS = {"samples/s": 99, "progress": 89}  # worth of these columns for ranks on GPUs
GPU_MEMORY = "The memory of its GPU that all programs use, and its total memory."
TENSORS = "GPU memory allocated for tensors, and reserved by torch: allocated/reserved."
TFLOPS = "10^12 operations a second, of forward, loss and backward. Not counted in a watched training."


class RankRow(NamedTuple):
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
        if rank.epoch is None:
            return f"step {rank.step}"
        number, share = rank.epoch
        return f"ep. {number} " + _load_bar(share, max(0, BAR_CELLS - len(f"ep. {number} ")))
    return _load_bar(min(1.0, rank.step / rank.steps) if rank.steps else 0.0, BAR_CELLS)


def _load_bar(share: float, cells: int) -> str:
    full = int(share * cells)
    return f"{'█' * full}{'░' * (cells - full)} {share:4.0%}"


def _state(row: RankRow) -> str:
    return shorten(f"{row.state}{MARK * row.is_culprit}", STATE_CELLS)


def _short_state(row: RankRow) -> str:
    words = row.state.replace("waiting for rank", "waits for")
    words = words if len(words) <= SHORT_STATE - 2 else words.partition(" (")[0]  # without the seconds
    return shorten(f"{words}{' ◀' if row.is_culprit else ''}", SHORT_STATE)


def _phase(place: int) -> Callable[[RankRow], str]:
    return lambda row: f"{row.phases[place]:.1f}{HOST_TIME * is_host_time(row.rank.device)}" if row.phases else NOTHING


def _meter(path: str) -> Callable[[RankRow], str]:
    """Return a cell for a figure of the last heartbeat; blank if the rank is stalled, since it is outdated then."""
    shown = cell_at(path, "{:.0f}".format)
    return lambda row: "" if row.state.startswith(STALLED) and shown(row) != NOTHING else shown(row)


def _memory(used: str, total: str = "") -> Callable[[RankRow], str]:
    """Return a cell with a number of bytes, and the total if that is known. `used`, `total`: fields of a rank."""

    def cell(row: RankRow) -> str:
        of, whole = value_at(row.rank, used), value_at(row.rank, total) if total else None
        if not isinstance(of, int):
            return NOTHING
        return part_of(of, whole) if isinstance(whole, int) else size(of)

    return cell


def _clock(row: RankRow) -> str:
    mhz = _meter("rank.gpu.sm_mhz")(row)
    return f"{SLOWED if row.rank.gpu.held_back is True and mhz else ''}{mhz}"


def _samples(row: RankRow) -> str:
    return cell_at("rank.samples_per_s", "{:,.0f}".format)(row).replace(",", " ")


def _tflops(row: RankRow) -> str:
    return digits(tflops(row.rank.flops, row.rank.samples_per_s))


COLUMNS: tuple[Column[RankRow], ...] = (
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


def fitting(rows: Sequence[RankRow], width: int) -> list[Filled]:
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

    what = "ranks"
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
            rank = live.ranks.get(number) or RankState(number, device="")
            state = states.get(number, "launching" if live.status == "running" else "")
            waited = wait_ms(steps, number) if waits_known else None
            rows.append(RankRow(rank, state, phases_ms(rank, steps), waited, is_culprit=number == watched.culprit))
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
