"""The columns of the comparison: what each shows of a trial.

Adding one is one entry in COLUMNS, and what it shows in words in ddptui/config/columns.py.
"""

from collections.abc import Callable, Iterable, Sequence
from statistics import median

from ddptui.analysis.breakdown import Breakdown
from ddptui.analysis.correctness import diverged, is_multiple, is_own
from ddptui.analysis.counted import counted
from ddptui.analysis.results import RankResult
from ddptui.config import strategies
from ddptui.config.columns import MEANINGS
from ddptui.config.launch_modes import ONE_PROCESS
from ddptui.config.trial_text import describe_average, describe_bottleneck, describe_fault
from ddptui.report import ranks as devices
from ddptui.report.differences import signed
from ddptui.report.rows import (
    OFF_BY,
    Figure,
    Row,
    by_host,
    culprit_of,
    is_stand_in,
    loss_of,
    marked,
    median_of,
    mfu_percent,
    off_by,
    status_of,
    step_ms,
)
from ddptui.text.tables import Column, Filled, fill
from ddptui.text.units import NOTHING, seconds

IN_BACKWARD, IN_SOME_STEPS = "²", "³"
RIGHT = "right"


def _timed(figure: Figure, form: str = "") -> Callable[[Row], str]:
    """A median that other programs may have disturbed."""
    return lambda row: marked(row, median_of(row.result, figure, form))


def _memory(peaks: Callable[[Sequence[RankResult]], list[int]]) -> Callable[[Row], str]:
    """The peaks of the last repeat's ranks."""
    return lambda row: devices.memory(peaks(row.last.ranks if row.last else ())) or NOTHING


def _train_time(row: Row) -> str:
    if row.result.summary is None:
        return status_of(row.result) or NOTHING
    time = row.result.summary.train_time_s
    return marked(row, off_by(time, time.min, time.max, len(counted(row.result.repeats))))


def _ratio(row: Row) -> str:
    """The median of the repeats' ratios; of disturbed ones the range."""
    ratio = row.result.summary.ratio if row.result.summary else None
    if ratio is None:
        return NOTHING
    is_single = ratio.low == ratio.median == ratio.high  # as the baseline's
    is_range = row.is_rough and not is_single
    shown = f"{ratio.low:.2f}…{ratio.high:.2f}" if is_range else off_by(ratio, ratio.low, ratio.high, 2 - is_single)
    return marked(row, shown, beside_baseline=True)


def _start(row: Row) -> str:
    """How long it took to the first step, and how the ranks were started."""
    kinds = [kind for kind in ("warm", "cold") if any(repeat.start == kind for repeat in row.result.repeats)]
    return " ".join([median_of(row.result, lambda repeat: repeat.startup_s, ".1f"), ", ".join(kinds)]).rstrip()


def _spread(row: Row) -> str:
    if row.result.summary is None or len(counted(row.result.repeats)) < 2:  # one repeat has no spread
        return NOTHING
    spread = row.result.summary.train_time_s
    return f"{spread.min:.2f}…{spread.max:.2f}"


def _speedup(row: Row) -> str:
    value = row.result.summary.speedup if row.result.summary else None
    return NOTHING if value is None else marked(row, f"{value:.2f}", beside_baseline=True)


def _accuracy(row: Row) -> str:
    return median_of(row.result, lambda repeat: repeat.accuracy and 100 * repeat.accuracy, ".1f")


def _loss(row: Row) -> str:
    """The loss at the end, or nan: steps were measured, and the last loss was not finite."""
    if diverged(row.result):
        return "nan"  # results.json has null for it, as JSON knows no NaN
    loss = loss_of(row.result)
    return NOTHING if loss is None else f"{loss:.3f}"


def _split(row: Row) -> str:
    return "+".join(map(str, devices.sub_batches(row.last.ranks if row.last else []))) or NOTHING


def _slept(row: Row) -> str:
    """How often the delays of a repeat fired, and how long they took in all."""
    # A slow link delays packets in the kernel, so ranks cannot count its delays.
    if all(delay.at == "link" for delay in row.trial.bottleneck) or not row.result.repeats:
        return NOTHING
    repeats = counted(row.result.repeats)
    fired = median(sum(rank.bottleneck_fired for rank in repeat.ranks) for repeat in repeats)
    slept = median(sum(rank.bottleneck_s for rank in repeat.ranks) for repeat in repeats)
    return f"{fired:g}× {seconds(slept)}"


def aggregation(row: Row) -> str:
    """The time of the aggregation, or the mark of a note if the median step has none."""
    if row.trial.strategy == "none" or row.trial.launch == "single" or not row.result.repeats:
        return NOTHING
    if not strategies.averages_after_backward(row.trial.strategy or "none", row.trial.mistake):
        return IN_BACKWARD
    if row.trial.every > 1 and row.trial.launch != "dp":  # DataParallel gathers in every step
        return IN_SOME_STEPS
    ms = median_of(row.result, lambda repeat: repeat.phases_ms.aggregate if repeat.phases_ms else None, ".2f")
    return by_host(row, ms)


def _wait(row: Row) -> str:
    """The waiting a step, with its error where ranks have clocks of their own."""
    wait = median_of(row.result, lambda repeat: repeat.wait_ms, ".2f")
    error = median_of(row.result, lambda repeat: repeat.wait_error_ms, ".2f")
    return marked(row, wait if NOTHING in (wait, error) else f"{wait} {OFF_BY}{error}")


def _overlap(row: Row) -> str:
    """The overlap of strategies that compute while they send."""
    if row.trial.launch in ONE_PROCESS or not strategies.STRATEGIES[row.trial.strategy or "none"].overlaps:
        return NOTHING
    return median_of(row.result, lambda repeat: repeat.overlap, ".0%")


def _in_sync(row: Row) -> str:
    """Of the last repeat: yes, no, or buffers differ (the parameters agree, the running statistics do not)."""
    if row.last is None or row.last.in_sync.parameters is None:
        return NOTHING
    return "no" if not row.last.in_sync.parameters else "yes" if row.last.in_sync.buffers else "buffers differ"


def _average(row: Row) -> str:
    """What the strategy left of the gradients in the last repeat, against their true mean."""
    averaging = row.last.averaging if row.last else None
    if averaging is None:
        return NOTHING
    if averaging.error is None or averaging.worst_error is None:
        return "not finite"
    if averaging.right:
        lossy = row.trial.strategy and strategies.STRATEGIES[row.trial.strategy].rounding
        return f"± {averaging.error:.1g}" if lossy else RIGHT
    if averaging.right is None:  # no bound is known for this strategy
        return f"off {averaging.error:.0%}"
    if is_own(averaging):
        return "none taken"
    if not is_multiple(averaging):
        return f"off {averaging.worst_error:.2%}"
    factor = f"{averaging.scale or 0.0:.4g}"
    return "half of it" if factor == "0.5" else f"{factor} times it"


def _order(row: Row) -> str:
    # Only what is wrong is said: every epoch had the order of the one before.
    return "same" if row.last and row.last.reshuffled is False else NOTHING


def _more(part: Callable[[Breakdown], float]) -> Callable[[Row], str]:
    """By how many seconds more than in the baseline, with its sign."""
    return lambda row: marked(row, signed(part(row.difference)), beside_baseline=True) if row.difference else NOTHING


def _more_delay(row: Row) -> str:
    return _more(lambda difference: difference.delay)(row) if row.difference and row.difference.delay else NOTHING


_step_ms = _timed(step_ms, ".2f")

_COLUMNS: tuple[Column[Row], ...] = (
    Column("trial", lambda row: row.result.name + " ¹" * is_stand_in(row), 100, left=True, key="trial"),
    Column("launch", lambda row: row.trial.launch, 40, left=True, key="launch"),
    Column("ranks", lambda row: str(row.ranks or NOTHING), 55, key="ranks"),
    Column("strategy", lambda row: row.trial.strategy or NOTHING, 45, left=True, key="strategy"),
    Column("backend", lambda row: (row.last and row.last.backend) or NOTHING, 15, left=True, key="backend"),
    Column("averages", lambda row: describe_average(row.trial) or NOTHING, 46, left=True, key="average"),
    Column("mistake", lambda row: row.trial.mistake or NOTHING, 20, left=True, key="mistake"),
    Column("sub-batch", _split, 92, key="split"),
    Column("gpu mem.", _memory(devices.peaks), 90, key="memory"),
    Column("reserved", _memory(devices.reserved_peaks), 34, key="reserved"),
    Column("bottleneck", lambda row: describe_bottleneck(row.trial.bottleneck), 30, left=True, key="bottleneck"),
    Column("fault", lambda row: describe_fault(row.trial.fault), 29, left=True, key="fault"),
    Column("slept", _slept, 93, key="slept"),
    Column("train s", _train_time, 99, key="train"),
    Column("min…max", _spread, 60, key="spread"),
    Column("ratio", _ratio, 95, key="ratio"),
    Column("publ.", lambda row: NOTHING if row.published is None else f"{row.published:.2f}", 94, key="published"),
    Column("speed-up", _speedup, 50, key="speedup"),
    Column("start s", _start, 35, key="startup"),
    Column("samples/s", _timed(lambda repeat: repeat.samples_per_s, ".0f"), 65, key="samples"),
    Column("TFLOP/s", _timed(lambda repeat: repeat.tflops), 66, key="tflops"),
    Column("MFU %", _timed(mfu_percent, ".1f"), 77, key="mfu"),
    Column("J/step", _timed(lambda repeat: repeat.joules_a_step), 48, key="energy"),
    Column("step ms", lambda row: by_host(row, _step_ms(row)), 70, key="step"),
    Column("aggr. ms", aggregation, 76, key="aggregate"),
    Column("wait ms", _wait, 92, key="wait"),
    Column("transfer ms", _timed(lambda repeat: repeat.transfer_ms, ".2f"), 74, key="transfer"),
    Column("overlap", _overlap, 77, key="overlap"),
    Column("waits for", lambda row: culprit_of(row.result), 91, left=True, key="culprit"),
    Column("loss", _loss, 68, key="loss"),
    Column("acc. %", _accuracy, 75, key="accuracy"),
    Column("in sync", _in_sync, 80, left=True, key="sync"),
    Column("average", _average, 79, left=True, key="mean"),
    Column("order", _order, 78, left=True, key="order"),
    Column("Δ s", _more(lambda difference: difference.total), 14, key="delta"),
    Column("Δ work", _more(lambda difference: difference.work), 13, key="delta_work"),
    Column("Δ delay", _more_delay, 12, key="delta_delay"),
    Column("Δ wait", _more(lambda difference: difference.wait), 11, key="delta_wait"),
    Column("Δ transfer", _more(lambda difference: difference.transfer), 10, key="delta_transfer"),
    Column("Δ rest", _more(lambda difference: difference.hidden + difference.unexplained), 9, key="delta_rest"),
)
COLUMNS = tuple(column._replace(about=MEANINGS[column.key]) for column in _COLUMNS)
AT_LEAST = 2  # columns that are shown however narrow it gets: the trial and its time
UNEQUAL_WORK = {"speedup": 97, "samples": 96}  # worth more than times, where trials do different work in a step
ALL_RIGHT = {"mean": 75}  # as the accuracy, which stands before it; a wrong average comes first
ASKED_FOR = 98  # worth of the columns that a preset wants seen: only the trial and its time come before
USUAL = 97  # of those that the user wants seen of every preset


def columns_of(rows: Sequence[Row], asked_for: Iterable[str] = (), usual: Iterable[str] = ()) -> list[Filled]:
    """Every column with the cells of these trials. asked_for: keys of columns that are dropped last; usual: of those
    that are dropped just before."""
    worth = UNEQUAL_WORK if len({row.trial.batch_size for row in rows}) > 1 else {}
    worth = worth | (ALL_RIGHT if {_average(row) for row in rows} <= {NOTHING, RIGHT} else {})
    wanted = {**dict.fromkeys(usual, USUAL), **dict.fromkeys(asked_for, ASKED_FOR)}
    worth |= {key: value for key, value in wanted.items() if key not in ("trial", "train")}
    return [column._replace(worth=worth.get(column.key, column.worth)) for column in fill(COLUMNS, rows)]
