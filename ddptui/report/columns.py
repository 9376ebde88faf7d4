"""The columns of the table that compares trials: the text of each cell.

A new column needs an entry in _COLUMNS, and its description in ddptui/config/fields.py.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import attrgetter
from statistics import median
from typing import Any

from ddptui.analysis.correctness import diverged, is_multiple, is_on_some_ranks, is_partly_right, is_weighted, keeps_own
from ddptui.analysis.repeats import valid_repeats
from ddptui.analysis.results import RepeatResult
from ddptui.config import catalog
from ddptui.config.catalog import ONE_PROCESS
from ddptui.config.fields import MEANINGS
from ddptui.config.trial import in_short
from ddptui.config.values import describe_average, describe_bottleneck, describe_fault
from ddptui.report.bars import signed
from ddptui.report.ranks import in_all, known, memory
from ddptui.report.rows import (
    DISTURBED,
    OFF_BY,
    Row,
    by_host,
    culprit_of,
    is_marked,
    is_stand_in,
    median_figure,
    median_of,
    off_by,
    status_of,
)
from ddptui.text.tables import Column, Filled, cell_at, fill, value_at
from ddptui.text.words import NOTHING, digits, duration

IN_BACKWARD, IN_SOME_STEPS = "in bwd", "in some"
RIGHT = "right"
ABOUT = "~"


def _median(figure: str, form: str = "", factor: float = 1.0) -> Callable[[Row], str]:
    """A cell with the median of a figure over the valid repeats. figure: its path within a repeat in results.json."""

    def of_repeat(repeat: RepeatResult) -> float | None:
        value: Any = value_at(repeat, figure)
        return None if value is None else factor * value

    return lambda row: median_of(row.result, of_repeat, form)


def _of_ranks(figure: str, text: Callable[[Sequence[Any]], str]) -> Callable[[Row], str]:
    """A cell with a figure of each rank of the last repeat."""
    return lambda row: text(known(row.last.ranks if row.last else (), figure)) or NOTHING


def _train_time(row: Row) -> str:
    time = row.result.summary.train_time_s if row.result.summary else None
    return off_by(time.median, time.min, time.max) if time else status_of(row.result) or NOTHING


def _spread(row: Row) -> str:
    if row.result.summary is None or len(valid_repeats(row.result.repeats)) < 2:  # one repeat has no spread
        return NOTHING
    return f"{row.result.summary.train_time_s.min:.2f}…{row.result.summary.train_time_s.max:.2f}"


def _ratio(row: Row) -> str:
    """The median of the repeats' ratios; the range of the ratios if repeats were disturbed."""
    ratio = row.result.summary.ratio if row.result.summary else None
    if ratio and row.is_rough and ratio.low < ratio.high:
        return f"{ratio.low:.2f}…{ratio.high:.2f}"
    return off_by(ratio.median, ratio.low, ratio.high) if ratio else NOTHING


def _start(row: Row) -> str:
    """The seconds from the launch to the first step, and how the ranks were started, e.g. `1.9 warm`."""
    kinds = [kind for kind in ("warm", "cold") if any(repeat.start == kind for repeat in row.result.repeats)]
    return " ".join([_median("startup_s", ".1f")(row), ", ".join(kinds)]).rstrip()


def _epoch(row: Row) -> str:
    """The time of an epoch, marked if a repeat's is an estimate. In seconds even if it is long: minutes are too coarse
    to compare."""
    time = median_figure(row.result, attrgetter("epoch_s"))
    is_estimate = any(repeat.epoch_is_estimate for repeat in valid_repeats(row.result.repeats))
    return NOTHING if time is None else f"{ABOUT * is_estimate}{digits(time)} s"


def _loss(row: Row) -> str:
    """The loss at the end, or nan if steps were measured and the last loss was not finite."""
    # results.json has null for it, since JSON has no NaN
    return "nan" if diverged(row.result) else _median("loss.last", ".3f")(row)


def _slept(row: Row) -> str:
    """How often the delays of a repeat fired, and their total length."""
    # A slow link delays packets in the kernel, so ranks cannot count its delays.
    if all(delay.at == "link" for delay in row.trial.bottleneck) or not row.result.repeats:
        return NOTHING
    repeats = valid_repeats(row.result.repeats)
    fired = median(sum(rank.bottleneck_fired for rank in repeat.ranks) for repeat in repeats)
    slept = median(sum(rank.bottleneck_s for rank in repeat.ranks) for repeat in repeats)
    return in_all(slept, fired)


def _aggregation(row: Row) -> str:
    """The time of the aggregation in ms, or where it takes place if the median step has none."""
    if row.trial.strategy == "none" or row.trial.launch == "single" or not row.result.repeats:
        return NOTHING
    if not catalog.averages_after_backward(row.trial.strategy or "none", row.trial.mistake):
        return IN_BACKWARD
    if row.trial.every > 1 and row.trial.launch != "dp":  # DataParallel gathers in every step
        return IN_SOME_STEPS
    return _median("phases_ms.aggregate", ".2f")(row)


def _wait(row: Row) -> str:
    """The waiting per step in ms, with the clock error if ranks have different clocks."""
    wait, error = _median("wait_ms", ".2f")(row), _median("wait_error_ms", ".2f")(row)
    return wait if NOTHING in (wait, error) else f"{wait} {OFF_BY}{error}"


def _overlap(row: Row) -> str:
    """The overlap in percent, for strategies that send while backward runs."""
    if row.trial.launch in ONE_PROCESS or not catalog.facts_of(row.trial.strategy).overlaps:
        return NOTHING
    return _median("overlap", ".0%")(row)


def _in_sync(row: Row) -> str:
    """Whether the ranks were in sync after the last repeat: yes, no, or `buffers differ` (the parameters agree)."""
    if row.last is None or row.last.in_sync.parameters is None:
        return NOTHING
    return "no" if not row.last.in_sync.parameters else "yes" if row.last.in_sync.buffers else "buffers differ"


def _average(row: Row) -> str:
    """How the averaged gradients of the last repeat compare with their true mean."""
    averaging = row.last.averaging if row.last else None
    if averaging is None:
        return NOTHING
    if averaging.error is None or averaging.worst_error is None:
        return "not finite"
    if averaging.right:
        lossy = row.trial.strategy and catalog.facts_of(row.trial.strategy).rounding
        return f"± {averaging.error:.1g}" if lossy else RIGHT
    if averaging.right is None:  # no bound is known for this strategy
        return f"off {averaging.error:.0%}"
    if keeps_own(averaging):
        return "none taken"
    if is_multiple(averaging):
        factor = f"{averaging.scale or 0.0:.4g}"
        return "half of it" if factor == "0.5" else f"{factor} times it"
    if is_on_some_ranks(averaging, row.trial):
        return f"{len(averaging.wrong_ranks)} of {row.trial.world_size} ranks wrong"
    if is_weighted(averaging):
        return "weighted"
    if is_partly_right(averaging):
        return f"{averaging.wrong_tensors} of {averaging.tensors} wrong"
    return f"off {averaging.worst_error:.2%}"


def _order(row: Row) -> str:
    # A cell has text only if there is a mistake: every epoch had the same order.
    return "same" if row.last and row.last.reshuffled is False else NOTHING


_two = "{:.2f}".format
_COLUMNS: tuple[Column[Row], ...] = (
    Column("trial", lambda row: row.result.name + " ¹" * is_stand_in(row), 100, left=True, key="trial"),
    Column("launch", cell_at("trial.launch"), 40, left=True, key="launch"),
    Column("ranks", lambda row: str(row.ranks or NOTHING), 55, key="ranks"),
    Column("strategy", cell_at("trial.strategy", in_short), 45, left=True, key="strategy"),
    Column("backend", cell_at("last.backend"), 15, left=True, key="backend"),
    Column("averages", lambda row: describe_average(row.trial) or NOTHING, 46, left=True, key="average"),
    Column("mistake", cell_at("trial.mistake"), 20, left=True, key="mistake"),
    Column("sub-batch", _of_ranks("sub_batch", lambda samples: "+".join(map(str, samples))), 92, key="split"),
    Column("gpu mem.", _of_ranks("peak_gpu_bytes", memory), 90, key="memory"),
    Column("reserved", _of_ranks("peak_gpu_reserved_bytes", memory), 34, key="reserved"),
    Column("bottleneck", cell_at("trial.bottleneck", describe_bottleneck), 30, left=True, key="bottleneck"),
    Column("fault", cell_at("trial.fault", describe_fault), 29, left=True, key="fault"),
    Column("slept", _slept, 93, key="slept"),
    Column("train s", _train_time, 99, key="train"),
    Column("min…max", _spread, 60, key="spread"),
    Column("ratio", _ratio, 95, key="ratio"),
    Column("publ.", cell_at("published", _two), 94, key="published"),
    Column("speed-up", cell_at("result.summary.speedup", _two), 50, key="speedup"),
    Column("start s", _start, 35, key="startup"),
    Column("samples/s", _median("samples_per_s", ".0f"), 65, key="samples"),
    Column("TFLOP/s", _median("tflops"), 66, key="tflops"),
    Column("MFU %", _median("mfu", ".1f", 100), 77, key="mfu"),
    Column("J/step", _median("joules_a_step"), 48, key="energy"),
    Column("step ms", _median("step_ms.median", ".2f"), 70, key="step"),
    Column("epoch time", _epoch, 8, key="epoch"),
    Column("batch time", lambda row: duration(median_figure(row.result, attrgetter("batch_s"))), 7, key="batch_time"),
    Column("aggr. ms", _aggregation, 76, key="aggregate"),
    Column("wait ms", _wait, 92, key="wait"),
    Column("transfer ms", _median("transfer_ms", ".2f"), 74, key="transfer"),
    Column("overlap", _overlap, 77, key="overlap"),
    Column("waits for", lambda row: culprit_of(row.result), 91, left=True, key="culprit"),
    Column("loss", _loss, 68, key="loss"),
    Column("acc. %", _median("accuracy", ".1f", 100), 75, key="accuracy"),
    Column("in sync", _in_sync, 80, left=True, key="sync"),
    Column("average", _average, 79, left=True, key="mean"),
    Column("order", _order, 78, left=True, key="order"),
    Column("Δ s", cell_at("difference.total", signed), 14, key="delta"),
    Column("Δ work", cell_at("difference.work", signed), 13, key="delta_work"),
    Column("Δ delay", cell_at("difference.delay", lambda s: signed(s) if s else NOTHING), 12, key="delta_delay"),
    Column("Δ wait", cell_at("difference.wait", signed), 11, key="delta_wait"),
    Column("Δ transfer", cell_at("difference.transfer", signed), 10, key="delta_transfer"),
    Column("Δ rest", cell_at("difference", lambda all: signed(all.hidden + all.unexplained)), 9, key="delta_rest"),
)
COLUMNS = tuple(column._replace(about=MEANINGS[column.key]) for column in _COLUMNS)
AT_LEAST = 2  # columns that are shown at any width: the trial and its time
UNEQUAL_WORK = {"speedup": 97, "samples": 96}  # worth more than times if trials do different work in a step
ALL_RIGHT = {"mean": 75}  # worth if all averages are right: that of the accuracy, which stands before it
ASKED_FOR = 98  # worth of the columns that a preset names: only the trial and its time are worth more
PINNED = 97  # worth of the columns in the user's settings
# Keys of the columns whose cells get a mark if the trial was disturbed; for COMPARED, also if the baseline was.
ROUGH = ("train", "samples", "tflops", "mfu", "energy", "step", "epoch", "batch_time", "wait", "transfer")
COMPARED = ("ratio", "speedup", *(column.key for column in COLUMNS if column.key.startswith("delta")))


def columns_of(rows: Sequence[Row], asked_for: Iterable[str] = (), pinned: Iterable[str] = ()) -> list[Filled]:
    """Every column with the cells of these trials. Narrow tables drop the columns of `asked_for` last (these are the
    preset's), and those of `pinned` just before (these are from the user's settings)."""
    worth = UNEQUAL_WORK if len({row.trial.batch_size for row in rows}) > 1 else {}
    worth = worth | (ALL_RIGHT if {_average(row) for row in rows} <= {NOTHING, RIGHT} else {})
    wanted = {**dict.fromkeys(pinned, PINNED), **dict.fromkeys(asked_for, ASKED_FOR)}
    worth |= {key: value for key, value in wanted.items() if key not in ("trial", "train")}
    filled = [column._replace(worth=worth.get(column.key, column.worth)) for column in fill(COLUMNS, rows)]
    return [column._replace(cells=[*map(partial(_marked, column.key), rows, column.cells)]) for column in filled]


def leading(columns: Iterable[Filled], asked_for: Iterable[str]) -> list[Filled]:
    """The trial, the columns of `asked_for`, the train time and the ratio; then the others in their usual order."""
    first = ("trial", *asked_for, "train", "ratio")
    return sorted(columns, key=lambda column: [*first, column.key].index(column.key))


def _marked(key: str, row: Row, cell: str) -> str:
    is_disturbed = (key in (*ROUGH, *COMPARED) and is_marked(row.result)) or (key in COMPARED and row.is_rough)
    cell = f"{cell} {DISTURBED}" if is_disturbed and cell != NOTHING else cell
    return by_host(row, cell) if key in ("step", "aggregate") else cell
