"""The columns of the comparison: what each one says of a trial, and how much it is worth where space is short. Pure."""

from collections.abc import Callable, Sequence
from statistics import median
from typing import NamedTuple

from ddptui.analysis.correctness import is_multiple, is_own
from ddptui.analysis.results import RepeatResult, Results, TrialResult
from ddptui.config import strategies
from ddptui.config.preset import Preset
from ddptui.config.trial import Trial
from ddptui.config.trial_text import describe_average, describe_bottleneck, describe_fault
from ddptui.report import devices
from ddptui.report.status import is_not_finite, status_of
from ddptui.text.units import NOTHING

GAP = 2  # characters between two columns
IN_BACKWARD, IN_SOME_STEPS = "²", "³"
OFF_BY = "±"


class Row(NamedTuple):
    """A trial's results beside its configuration, and what was published about it (train time over the baseline's)."""

    result: TrialResult
    trial: Trial
    published: float | None


class Column(NamedTuple):
    key: str
    header: str
    cell: Callable[[Row], str]
    worth: int  # where space is short, the least goes first


def rows_of(results: Results, preset: Preset) -> list[Row]:
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


def _of_repeats(row: Row, figure: Callable[[RepeatResult], float | None], form: str) -> str:
    """The median of a figure over the repeats; a dash where there is none."""
    values = [value for repeat in row.result.repeats if (value := figure(repeat)) is not None]
    return format(median(values), form) if values else NOTHING


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


def _ratio(row: Row) -> str:
    ratio = row.result.summary.ratio if row.result.summary else None
    return f"{ratio.median:.2f}" if ratio else NOTHING


def _speedup(row: Row) -> str:
    speedup = row.result.summary.speedup if row.result.summary else None
    return f"{speedup:.2f}" if speedup is not None else NOTHING


def _loss(row: Row) -> str:
    """Measured steps without a loss had one that was no number."""
    if any(is_not_finite(repeat) for repeat in row.result.repeats):
        return "nan"
    return _of_repeats(row, lambda repeat: repeat.loss.last, ".3f")


def _split(row: Row) -> str:
    """dp: the most samples that each replica saw in a step."""
    ranks = row.result.repeats[-1].ranks if row.result.repeats else []
    return "+".join(str(rank.sub_batch) for rank in ranks if rank.sub_batch is not None) or NOTHING


def _memory(row: Row) -> str:
    """The most that each rank, or replica, took of its GPU's memory."""
    return (devices.memory(row.result.repeats[-1].ranks) if row.result.repeats else "") or NOTHING


def _backend(row: Row) -> str:
    return (row.result.repeats[-1].backend if row.result.repeats else None) or NOTHING


def _slept(row: Row) -> str:
    """How often the delays of a repeat fired, and how long they really took."""
    if all(each.at == "link" for each in row.trial.bottleneck) or not row.result.repeats:
        return NOTHING
    fired = median(sum(rank.bottleneck_fired for rank in repeat.ranks) for repeat in row.result.repeats)
    slept = median(sum(rank.bottleneck_s for rank in repeat.ranks) for repeat in row.result.repeats)
    return f"{fired:g}× {slept:.3g} s"


def aggregation(row: Row) -> str:
    """The aggregation's own time, or the mark of a note where the median step has none."""
    if row.trial.strategy == "none" or row.trial.launch == "single" or not row.result.repeats:
        return NOTHING
    if not strategies.averages_after_backward(row.trial.strategy or "none", row.trial.mistake):
        return IN_BACKWARD
    if row.trial.every > 1 and row.trial.launch != "dp":
        return IN_SOME_STEPS
    return _of_repeats(row, lambda repeat: repeat.phases_ms.aggregate if repeat.phases_ms else None, ".2f")


def _wait(row: Row) -> str:
    """And how far off it may be, where hosts have clocks of their own."""
    wait = _of_repeats(row, lambda repeat: repeat.wait_ms, ".2f")
    error = _of_repeats(row, lambda repeat: repeat.wait_error_ms, ".2f")
    return wait if NOTHING in (wait, error) else f"{wait} {OFF_BY}{error}"


def _overlap(row: Row) -> str:
    """Said of strategies that go on computing while they send."""
    if row.trial.launch in ("single", "dp") or not strategies.STRATEGIES[row.trial.strategy or "none"].overlaps:
        return NOTHING
    return _of_repeats(row, lambda repeat: repeat.overlap, ".0%")


def _culprit(row: Row) -> str:
    """The rank that stands out, and where it lost its time."""
    culprit = row.result.summary.culprit if row.result.summary else None
    return f"rank {culprit.rank}: {culprit.phase}" if culprit else NOTHING


def _in_sync(row: Row) -> str:
    """Of the last repeat: yes, no, or buffers (parameters agree, running statistics do not)."""
    if not row.result.repeats or row.result.repeats[-1].in_sync.parameters is None:
        return NOTHING
    in_sync = row.result.repeats[-1].in_sync
    return "no" if not in_sync.parameters else "yes" if in_sync.buffers else "buffers differ"


def _mean(row: Row) -> str:
    """Of the last repeat: what the strategy leaves, against the true mean."""
    found = row.result.repeats[-1].averaging if row.result.repeats else None
    if found is None:
        return NOTHING
    if found.error is None or found.worst_error is None:
        return "not finite"
    if found.right:
        lossy = row.trial.strategy and strategies.STRATEGIES[row.trial.strategy].rounding
        return f"± {found.error:.1g}" if lossy else "yes"
    if found.right is None:
        return f"off {found.error:.0%}"
    if is_own(found):
        return "own"
    return f"× {found.scale:.4g}" if is_multiple(found) else f"off {found.worst_error:.2%}"


def _order(row: Row) -> str:
    """Said only if it is wrong: every epoch had the order of the one before."""
    return "same" if row.result.repeats and row.result.repeats[-1].reshuffled is False else NOTHING


def _published(row: Row) -> str:
    return f"{row.published:.2f}" if row.published is not None else NOTHING


COLUMNS = (
    Column("trial", "trial", _name, 100),
    Column("launch", "launch", lambda row: row.trial.launch, 40),
    Column("ranks", "ranks", lambda row: str(row.trial.world_size), 55),
    Column("strategy", "strategy", lambda row: row.trial.strategy or NOTHING, 45),
    Column("backend", "backend", _backend, 15),
    Column("average", "average", lambda row: describe_average(row.trial) or NOTHING, 46),
    Column("mistake", "mistake", lambda row: row.trial.mistake or NOTHING, 20),
    Column("split", "sub-batch", _split, 92),
    Column("memory", "gpu mem.", _memory, 90),
    Column("bottleneck", "bottleneck", lambda row: describe_bottleneck(row.trial.bottleneck), 30),
    Column("fault", "fault", lambda row: describe_fault(row.trial.fault), 29),
    Column("slept", "slept", _slept, 93),
    Column("train", "train s", _train_time, 99),
    Column("spread", "min…max", _spread, 60),
    Column("ratio", "ratio", _ratio, 95),
    Column("published", "publ.", _published, 94),
    Column("speedup", "speed-up", _speedup, 50),
    Column("startup", "start s", lambda row: _of_repeats(row, lambda r: r.startup_s, ".1f"), 35),
    Column("samples", "samples/s", lambda row: _of_repeats(row, lambda r: r.samples_per_s, ".0f"), 65),
    Column(
        "step", "step ms", lambda row: _of_repeats(row, lambda r: r.step_ms.median if r.step_ms else None, ".2f"), 70
    ),
    Column("aggregate", "aggr. ms", aggregation, 76),
    Column("wait", "wait ms", _wait, 92),
    Column("transfer", "transfer ms", lambda row: _of_repeats(row, lambda r: r.transfer_ms, ".2f"), 74),
    Column("overlap", "overlap", _overlap, 77),
    Column("culprit", "waits for", _culprit, 91),
    Column("loss", "loss", _loss, 68),
    Column("accuracy", "acc. %", lambda row: _of_repeats(row, lambda r: r.accuracy and 100 * r.accuracy, ".1f"), 75),
    Column("sync", "in sync", _in_sync, 80),
    Column("mean", "mean", _mean, 79),
    Column("order", "order", _order, 78),
)
UNEQUAL_WORK = {"speedup": 97, "samples": 96}  # worth more than times, where trials do different work in a step
LEFT = {
    "trial", "launch", "strategy", "backend", "average", "mistake", "bottleneck", "fault", "sync", "mean", "order",
    "culprit",
}  # fmt: skip


def worths(rows: Sequence[Row]) -> dict[str, int]:
    """What each column is worth for these trials."""
    usual = {column.key: column.worth for column in COLUMNS}
    return usual | UNEQUAL_WORK if len({row.trial.batch_size for row in rows}) > 1 else usual


def telling(cells: dict[str, list[str]]) -> list[str]:
    """Columns in which at least one trial has something to say."""
    return [key for key, column in cells.items() if any(cell != NOTHING for cell in column)]


def fitting(cells: dict[str, list[str]], worth: dict[str, int], width: int) -> list[str]:
    """The columns that fit, the most telling first taken, in their order. `cells` have the headers first."""
    spoken = telling({key: column[1:] for key, column in cells.items()})
    taken: dict[str, int] = {}
    for column in sorted(COLUMNS, key=lambda column: -worth[column.key]):
        if column.key in spoken:
            wider = taken | {column.key: max(map(len, cells[column.key]))}
            if len(taken) < 2 or total(wider) <= width:
                taken = wider
    return [column.key for column in COLUMNS if column.key in taken]


def total(widths: dict[str, int]) -> int:
    return sum(widths.values()) + GAP * (len(widths) - 1)
