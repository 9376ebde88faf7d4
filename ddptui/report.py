"""The comparison as terminal text, Markdown, CSV and JSON. Pure: results in, text out."""

import csv
import io
from collections.abc import Callable, Sequence
from statistics import median
from typing import NamedTuple

import msgspec

from ddptui.launch import LABELS
from ddptui.preset import Bottleneck, Preset, Trial
from ddptui.results import RepeatResult, Results, TrialResult

NOTHING = "–"
GAP = 2  # columns between columns
NARROWEST_NAME = 12


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


def text(results: Results, preset: Preset, width: int) -> str:
    """The table and its notes, no line of the table wider than `width`: columns are left out, lines never broken."""
    rows = _rows(results, preset)
    cells = {column.key: [column.header, *(column.cell(row) for row in rows)] for column in COLUMNS}
    columns = _fitting(cells, width)
    widths = {key: max(map(len, cells[key])) for key in columns}
    if (excess := _total(widths) - width) > 0:
        widths["trial"] = max(NARROWEST_NAME, widths["trial"] - excess)
    lines = [
        (" " * GAP).join(_align(cells[key][line], widths[key], left=key in LEFT) for key in columns).rstrip()
        for line in range(len(rows) + 1)
    ]
    rule = "─" * min(width, _total(widths))
    return "\n".join([preset.title, "", lines[0], rule, *lines[1:], rule, *notes(results, preset)]) + "\n"


def markdown(results: Results, preset: Preset) -> str:
    """All columns that say something, as a Markdown table with its notes."""
    rows = _rows(results, preset)
    columns = _telling({column.key: [column.cell(row) for row in rows] for column in COLUMNS})
    chosen = [column for column in COLUMNS if column.key in columns]
    lines = [
        "| " + " | ".join(column.header for column in chosen) + " |",
        "|" + "|".join(" :-- " if column.key in LEFT else " --: " for column in chosen) + "|",
        *("| " + " | ".join(column.cell(row).replace("|", "\\|") for column in chosen) + " |" for row in rows),
    ]
    points = [f"- {note}" for note in notes(results, preset)]
    return "\n".join([f"## {preset.title}", "", *lines, "", *points]) + "\n"


def as_csv(results: Results, preset: Preset) -> str:
    """A line a repeat of each trial, every figure in full, for a spreadsheet or a script."""
    output = io.StringIO()
    writer = csv.DictWriter(output, CSV_COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in _rows(results, preset):
        for number, repeat in enumerate(row.result.repeats, start=1):
            writer.writerow(_csv_row(row, number, repeat))
        if not row.result.repeats:
            writer.writerow({"trial": row.result.name, "status": row.result.status, "error": row.result.error})
    return output.getvalue()


def as_json(results: Results, preset: Preset) -> str:
    """results.json."""
    return msgspec.json.format(msgspec.json.encode(results), indent=2).decode() + "\n"


FORMATS: dict[str, Callable[[Results, Preset], str]] = {"markdown": markdown, "csv": as_csv, "json": as_json}


def notes(results: Results, preset: Preset) -> list[str]:
    """What the table cannot say in a cell, a line each (a failure brings the end of its log)."""
    found = [f"ratio, speed-up: against {preset.baseline}"] if len(preset.trials) > 1 else []
    modes = {row.trial.launch: row for row in _rows(results, preset) if row.result.repeats}
    if "dp" in modes and modes["dp"].result.repeats[0].ranks[0].device == "cpu":
        found.append("¹ threads, CPU stand-in for nn.DataParallel: there is no GPU here")
    if "launch" in modes:
        found.append(f"launch: {LABELS['launch']}")
    if any(row.trial.strategy == "ddp" for row in _rows(results, preset)):
        found.append("² ddp aggregates while backward runs: its time is within that phase")
    for trial in results.trials:
        found += [
            f"{trial.name}: the ranks differ in {_some(repeat.in_sync.differing)}"
            for repeat in trial.repeats[-1:]
            if repeat.in_sync.differing
        ]
        if trial.error:
            found.append(f"{trial.name} failed: {trial.error}")
    sources = dict.fromkeys(reference.source for reference in preset.references if reference.source)
    found += [f"published: {source}" for source in sources]
    if results.status == "interrupted":
        found.append("interrupted: the table shows what was finished")
    return found


def count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def describe_bottleneck(bottlenecks: Sequence[Bottleneck]) -> str:
    return ", ".join(_describe(bottleneck) for bottleneck in bottlenecks) or NOTHING


def _describe(bottleneck: Bottleneck) -> str:
    ranks = ",".join(map(str, bottleneck.ranks))
    each = "/call" if bottleneck.per == "call" else f"/{bottleneck.every} steps" if bottleneck.every > 1 else ""
    mean = "~" if bottleneck.jitter != "none" else ""
    return f"{bottleneck.at} {mean}{bottleneck.sleep_ms:g} ms{each} on {ranks}"


def _rows(results: Results, preset: Preset) -> list[Row]:
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
    return row.result.name


def _launch(row: Row) -> str:
    on_cpu = row.result.repeats and row.result.repeats[0].ranks[0].device == "cpu"
    return "dp ¹" if row.trial.launch == "dp" and on_cpu else row.trial.launch


def _train_time(row: Row) -> str:
    if row.result.summary is None:
        return row.result.status
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


def _slept(row: Row) -> str:
    """How often the delays of a repeat fired, and how long they really took."""
    if not row.trial.bottleneck or not row.result.repeats:
        return NOTHING
    fired = median(sum(rank.bottleneck_fired for rank in repeat.ranks) for repeat in row.result.repeats)
    slept = median(sum(rank.bottleneck_s for rank in repeat.ranks) for repeat in row.result.repeats)
    return f"{fired:g}× {slept:.3g}s"


def _aggregate(row: Row) -> str:
    """The aggregation's own time, where it has one."""
    if row.trial.strategy == "ddp":
        return "²"
    if row.trial.strategy == "none" or row.trial.launch == "single":
        return NOTHING
    return _of_repeats(row, lambda repeat: repeat.phases_ms.aggregate, ".2f")


def _in_sync(row: Row) -> str:
    """Of the last repeat: yes, no, or buffers (parameters agree, running statistics do not)."""
    if not row.result.repeats or row.result.repeats[-1].in_sync.parameters is None:
        return NOTHING
    in_sync = row.result.repeats[-1].in_sync
    return "no" if not in_sync.parameters else "yes" if in_sync.buffers else "buffers differ"


def _published(row: Row) -> str:
    return f"{row.published:.2f}" if row.published is not None else NOTHING


COLUMNS = (
    Column("trial", "trial", _name, 100),
    Column("launch", "launch", _launch, 40),
    Column("ranks", "ranks", lambda row: str(row.trial.world_size), 55),
    Column("strategy", "strategy", lambda row: row.trial.strategy or NOTHING, 45),
    Column("bottleneck", "bottleneck", lambda row: describe_bottleneck(row.trial.bottleneck), 30),
    Column("slept", "slept", _slept, 62),
    Column("train", "train s", _train_time, 99),
    Column("spread", "min…max", _spread, 60),
    Column("ratio", "ratio", _ratio, 95),
    Column("published", "publ.", _published, 94),
    Column("speedup", "speed-up", _speedup, 50),
    Column("startup", "start s", lambda row: _of_repeats(row, lambda r: r.startup_s, ".1f"), 35),
    Column("samples", "samples/s", lambda row: _of_repeats(row, lambda r: r.samples_per_s, ".0f"), 65),
    Column("step", "step ms", lambda row: _of_repeats(row, lambda r: r.step_ms.median, ".2f"), 70),
    Column("aggregate", "aggr. ms", _aggregate, 90),
    Column("loss", "loss", lambda row: _of_repeats(row, lambda r: r.loss.last, ".3f"), 68),
    Column("accuracy", "acc. %", lambda row: _of_repeats(row, lambda r: r.accuracy and 100 * r.accuracy, ".1f"), 75),
    Column("sync", "in sync", _in_sync, 80),
)
LEFT = {"trial", "launch", "strategy", "bottleneck", "sync"}

CSV_COLUMNS = (
    "trial", "repeat", "status", "error", "launch", "ranks", "strategy", "bottleneck", "bottleneck_fired",
    "bottleneck_s", "train_time_s", "startup_s", "steps", "samples_per_s", "step_ms", "step_ms_p10", "step_ms_p90",
    "data_ms", "forward_ms", "backward_ms", "aggregate_ms", "optimizer_ms", "wait_ms", "transfer_ms", "loss_first",
    "loss_last", "accuracy", "parameters_in_sync", "buffers_in_sync", "ratio", "speedup", "published_ratio",
)  # fmt: skip


def _csv_row(row: Row, number: int, repeat: RepeatResult) -> dict[str, object]:
    summary = row.result.summary
    phases = {f"{phase}_ms": value for phase, value in msgspec.structs.asdict(repeat.phases_ms).items()}
    return {
        "trial": row.result.name,
        "repeat": number,
        "status": row.result.status,
        "error": row.result.error,
        "launch": row.trial.launch,
        "ranks": row.trial.world_size,
        "strategy": row.trial.strategy,
        "bottleneck": describe_bottleneck(row.trial.bottleneck),
        "bottleneck_fired": sum(rank.bottleneck_fired for rank in repeat.ranks),
        "bottleneck_s": sum(rank.bottleneck_s for rank in repeat.ranks),
        "train_time_s": repeat.train_time_s,
        "startup_s": repeat.startup_s,
        "steps": repeat.steps,
        "samples_per_s": repeat.samples_per_s,
        "step_ms": repeat.step_ms.median,
        "step_ms_p10": repeat.step_ms.p10,
        "step_ms_p90": repeat.step_ms.p90,
        **phases,
        "wait_ms": repeat.wait_ms,
        "transfer_ms": repeat.transfer_ms,
        "loss_first": repeat.loss.first,
        "loss_last": repeat.loss.last,
        "accuracy": repeat.accuracy,
        "parameters_in_sync": repeat.in_sync.parameters,
        "buffers_in_sync": repeat.in_sync.buffers,
        "ratio": summary.ratio.median if summary and summary.ratio else None,
        "speedup": summary.speedup if summary else None,
        "published_ratio": row.published,
    }


def _telling(cells: dict[str, list[str]]) -> list[str]:
    """Columns in which at least one trial has something to say."""
    return [key for key, column in cells.items() if any(cell != NOTHING for cell in column)]


def _fitting(cells: dict[str, list[str]], width: int) -> list[str]:
    """The columns that fit, the most telling first taken, in their order."""
    telling = _telling({key: column[1:] for key, column in cells.items()})
    taken: dict[str, int] = {}
    for column in sorted(COLUMNS, key=lambda column: -column.worth):
        if column.key in telling:
            wider = taken | {column.key: max(map(len, cells[column.key]))}
            if not taken or len(taken) < 2 or _total(wider) <= width:
                taken = wider
    return [column.key for column in COLUMNS if column.key in taken]


def _total(widths: dict[str, int]) -> int:
    return sum(widths.values()) + GAP * (len(widths) - 1)


def _align(cell: str, width: int, *, left: bool) -> str:
    cell = cell if len(cell) <= width else cell[: width - 1] + "…"
    return cell.ljust(width) if left else cell.rjust(width)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more tensors" if len(names) > 3 else "")
