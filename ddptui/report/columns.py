"""The columns of the comparison: what each shows of a trial. Adding one is one entry in COLUMNS."""

from collections.abc import Callable, Sequence
from statistics import median
from typing import NamedTuple

from ddptui.analysis.correctness import is_multiple, is_own
from ddptui.analysis.results import RankResult, RepeatResult, Results, TrialResult
from ddptui.config import strategies
from ddptui.config.launch_modes import ONE_PROCESS
from ddptui.config.preset import Preset
from ddptui.config.trial import Trial
from ddptui.config.trial_text import describe_average, describe_bottleneck, describe_fault
from ddptui.report import devices
from ddptui.report.sentences import is_not_finite, status_of
from ddptui.text.tables import Column, Filled, fill
from ddptui.text.units import NOTHING, seconds, size
from ddptui.text.words import printable

IN_BACKWARD, IN_SOME_STEPS = "²", "³"
OFF_BY = "±"


class Row(NamedTuple):
    """A trial's results and configuration; published: its published train time over the baseline's."""

    result: TrialResult
    trial: Trial
    published: float | None

    @property
    def ratio(self) -> float | None:
        """Train time over the baseline's."""
        summary = self.result.summary
        return summary.ratio.median if summary and summary.ratio else None

    @property
    def speedup(self) -> float | None:
        """Samples a second over the baseline's."""
        return self.result.summary.speedup if self.result.summary else None


def rows_of(results: Results, preset: Preset) -> list[Row]:
    """A row a trial, in the order of the results."""
    published = {reference.trial: reference.train_time_s for reference in preset.references}
    base = published.get(preset.baseline)
    trials = {trial.name: trial for trial in preset.trials}
    return [
        Row(
            result,
            trials[result.name],
            published[result.name] / base if base and result.name in published else None,
        )
        for result in results.trials
    ]


def median_of(result: TrialResult, figure: Callable[[RepeatResult], float | None], form: str) -> str:
    """The median of a figure over the repeats; a dash where no repeat has it."""
    values = [value for repeat in result.repeats if (value := figure(repeat)) is not None]
    return format(median(values), form) if values else NOTHING


def _median(figure: Callable[[RepeatResult], float | None], form: str) -> Callable[[Row], str]:
    return lambda row: median_of(row.result, figure, form)


def _name(row: Row) -> str:
    return f"{row.result.name} ¹" if is_stand_in(row) else row.result.name


def is_stand_in(row: Row) -> bool:
    """Whether the trial's replicas were threads on the CPU, in place of nn.DataParallel's on GPUs."""
    return row.trial.launch == "dp" and any("stand-in" in repeat.ranks[0].device for repeat in row.result.repeats)


def _train_time(row: Row) -> str:
    if row.result.summary is None:
        return status_of(row.result) or NOTHING
    return f"{row.result.summary.train_time_s.median:.2f}"


def _spread(row: Row) -> str:
    if row.result.summary is None or len(row.result.repeats) < 2:
        return NOTHING
    spread = row.result.summary.train_time_s
    return f"{spread.min:.2f}…{spread.max:.2f}"


def _factor(figure: Callable[[Row], float | None]) -> Callable[[Row], str]:
    return lambda row: NOTHING if (value := figure(row)) is None else f"{value:.2f}"


def _loss(row: Row) -> str:
    """The loss at the end, or nan: steps were measured, and the last loss was not finite."""
    if any(is_not_finite(repeat) for repeat in row.result.repeats):
        return "nan"
    return median_of(row.result, lambda repeat: repeat.loss.last, ".3f")


def _split(row: Row) -> str:
    """nn.DataParallel: the most samples that each replica saw in a step."""
    ranks = row.result.repeats[-1].ranks if row.result.repeats else []
    return "+".join(str(rank.sub_batch) for rank in ranks if rank.sub_batch is not None) or NOTHING


def _memory(row: Row) -> str:
    """The peak memory of each rank's GPU."""
    return (devices.memory(row.result.repeats[-1].ranks) if row.result.repeats else "") or NOTHING


def _backend(row: Row) -> str:
    return (row.result.repeats[-1].backend if row.result.repeats else None) or NOTHING


def _slept(row: Row) -> str:
    """How often the delays of a repeat fired, and how long they took in all."""
    if all(delay.at == "link" for delay in row.trial.bottleneck) or not row.result.repeats:
        return NOTHING
    fired = median(sum(rank.bottleneck_fired for rank in repeat.ranks) for repeat in row.result.repeats)
    slept = median(sum(rank.bottleneck_s for rank in repeat.ranks) for repeat in row.result.repeats)
    return f"{fired:g}× {slept:.3g} s"


def aggregation(row: Row) -> str:
    """The time of the aggregation, or the mark of a note if the median step has none."""
    if row.trial.strategy == "none" or row.trial.launch == "single" or not row.result.repeats:
        return NOTHING
    if not strategies.averages_after_backward(row.trial.strategy or "none", row.trial.mistake):
        return IN_BACKWARD
    if row.trial.every > 1 and row.trial.launch != "dp":
        return IN_SOME_STEPS
    return median_of(row.result, lambda repeat: repeat.phases_ms.aggregate if repeat.phases_ms else None, ".2f")


def _wait(row: Row) -> str:
    """The waiting a step, with its error where ranks have clocks of their own."""
    wait = median_of(row.result, lambda repeat: repeat.wait_ms, ".2f")
    error = median_of(row.result, lambda repeat: repeat.wait_error_ms, ".2f")
    return wait if NOTHING in (wait, error) else f"{wait} {OFF_BY}{error}"


def _overlap(row: Row) -> str:
    """The overlap of strategies that compute while they send."""
    if row.trial.launch in ONE_PROCESS or not strategies.STRATEGIES[row.trial.strategy or "none"].overlaps:
        return NOTHING
    return median_of(row.result, lambda repeat: repeat.overlap, ".0%")


def _culprit(row: Row) -> str:
    return culprit_of(row.result)


def culprit_of(result: TrialResult) -> str:
    """The rank that the others wait for, and the phase in which it lost its time: rank 1: backward."""
    culprit = result.summary.culprit if result.summary else None
    return f"rank {culprit.rank}: {culprit.phase}" if culprit else NOTHING


def _in_sync(row: Row) -> str:
    """Of the last repeat: yes, no, or buffers differ (the parameters agree, the running statistics do not)."""
    if not row.result.repeats or row.result.repeats[-1].in_sync.parameters is None:
        return NOTHING
    in_sync = row.result.repeats[-1].in_sync
    return "no" if not in_sync.parameters else "yes" if in_sync.buffers else "buffers differ"


def _average(row: Row) -> str:
    """What the strategy left of the gradients in the last repeat, against their true mean."""
    averaging = row.result.repeats[-1].averaging if row.result.repeats else None
    if averaging is None:
        return NOTHING
    if averaging.error is None or averaging.worst_error is None:
        return "not finite"
    if averaging.right:
        lossy = row.trial.strategy and strategies.STRATEGIES[row.trial.strategy].rounding
        return f"± {averaging.error:.1g}" if lossy else "right"
    if averaging.right is None:
        return f"off {averaging.error:.0%}"
    if is_own(averaging):
        return "none taken"
    return _multiple(averaging.scale or 0.0) if is_multiple(averaging) else f"off {averaging.worst_error:.2%}"


def _multiple(scale: float) -> str:
    factor = f"{scale:.4g}"
    return "half of it" if factor == "0.5" else f"{factor} times it"


def _order(row: Row) -> str:
    """Set only if it is wrong: every epoch had the order of the one before."""
    return "same" if row.result.repeats and row.result.repeats[-1].reshuffled is False else NOTHING


COLUMNS: tuple[Column[Row], ...] = (
    Column("trial", _name, 100, left=True, key="trial"),
    Column("launch", lambda row: row.trial.launch, 40, left=True, key="launch"),
    Column("ranks", lambda row: str(row.trial.world_size), 55, key="ranks"),
    Column("strategy", lambda row: row.trial.strategy or NOTHING, 45, left=True, key="strategy"),
    Column("backend", _backend, 15, left=True, key="backend"),
    Column("averages", lambda row: describe_average(row.trial) or NOTHING, 46, left=True, key="average"),
    Column("mistake", lambda row: row.trial.mistake or NOTHING, 20, left=True, key="mistake"),
    Column("sub-batch", _split, 92, key="split"),
    Column("gpu mem.", _memory, 90, key="memory"),
    Column("bottleneck", lambda row: describe_bottleneck(row.trial.bottleneck), 30, left=True, key="bottleneck"),
    Column("fault", lambda row: describe_fault(row.trial.fault), 29, left=True, key="fault"),
    Column("slept", _slept, 93, key="slept"),
    Column("train s", _train_time, 99, key="train"),
    Column("min…max", _spread, 60, key="spread"),
    Column("ratio", _factor(lambda row: row.ratio), 95, key="ratio"),
    Column("publ.", _factor(lambda row: row.published), 94, key="published"),
    Column("speed-up", _factor(lambda row: row.speedup), 50, key="speedup"),
    Column("start s", _median(lambda repeat: repeat.startup_s, ".1f"), 35, key="startup"),
    Column("samples/s", _median(lambda repeat: repeat.samples_per_s, ".0f"), 65, key="samples"),
    Column("step ms", _median(lambda repeat: repeat.step_ms.median if repeat.step_ms else None, ".2f"), 70, key="step"),
    Column("aggr. ms", aggregation, 76, key="aggregate"),
    Column("wait ms", _wait, 92, key="wait"),
    Column("transfer ms", _median(lambda repeat: repeat.transfer_ms, ".2f"), 74, key="transfer"),
    Column("overlap", _overlap, 77, key="overlap"),
    Column("waits for", _culprit, 91, left=True, key="culprit"),
    Column("loss", _loss, 68, key="loss"),
    Column("acc. %", _median(lambda repeat: repeat.accuracy and 100 * repeat.accuracy, ".1f"), 75, key="accuracy"),
    Column("in sync", _in_sync, 80, left=True, key="sync"),
    Column("average", _average, 79, left=True, key="mean"),
    Column("order", _order, 78, left=True, key="order"),
)
AT_LEAST = 2  # columns that are shown however narrow it gets: the trial and its time
UNEQUAL_WORK = {"speedup": 97, "samples": 96}  # worth more than times, where trials do different work in a step


def columns_of(rows: Sequence[Row]) -> list[Filled]:
    """Every column with the cells of these trials."""
    filled = fill(COLUMNS, rows)
    if len({row.trial.batch_size for row in rows}) < 2:
        return filled
    return [column._replace(worth=UNEQUAL_WORK.get(column.key, column.worth)) for column in filled]


def _seconds(value: float | None) -> str:
    return seconds(value) if value is not None else NOTHING


def _number(value: int | None) -> str:
    return str(value) if value is not None else NOTHING


def _bytes(value: int | None) -> str:
    return size(value) if value is not None else NOTHING


def _waited_for(rank: RankResult) -> str:
    """The rank that this one waited for longest, and how long."""
    if not rank.waited_for_s:
        return NOTHING
    late_rank = max(rank.waited_for_s, key=lambda other: rank.waited_for_s[other])
    return f"rank {late_rank}: {seconds(rank.waited_for_s[late_rank])}"


def _delays(rank: RankResult) -> str:
    return f"{rank.bottleneck_fired}× {seconds(rank.bottleneck_s)}" if rank.bottleneck_fired else NOTHING


RANK_COLUMNS: tuple[Column[RankResult], ...] = (
    Column("rank", lambda rank: str(rank.rank)),
    Column("wait", lambda rank: _seconds(rank.wait_s)),
    Column("waits for", _waited_for, left=True),
    Column("wait caused", lambda rank: _seconds(rank.wait_caused_s)),
    Column("last in", lambda rank: _number(rank.last_arrivals)),
    Column("operations", lambda rank: _number(rank.collectives)),
    Column("transfer", lambda rank: _seconds(rank.transfer_s)),
    Column("exposed", lambda rank: _seconds(rank.exposed_s)),
    Column("overlap", lambda rank: f"{rank.overlap:.0%}" if rank.overlap is not None else NOTHING),
    Column("sent", lambda rank: _bytes(rank.bytes)),
    Column("delays", _delays),
    Column("gpu mem.", lambda rank: _bytes(rank.peak_gpu_bytes)),
    Column("device", lambda rank: printable(rank.device), left=True),
    Column("pid", lambda rank: str(rank.pid)),
    Column("host", lambda rank: printable(rank.host), left=True),
)
