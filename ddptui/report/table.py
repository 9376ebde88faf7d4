"""The comparison as terminal text, Markdown, CSV and JSON. Pure: results in, text out."""

import csv
import io
from collections.abc import Callable
from typing import Literal

import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from ddptui.analysis.correctness import red
from ddptui.analysis.results import RepeatResult, Results
from ddptui.config.launch_modes import LABELS
from ddptui.config.preset import Preset
from ddptui.config.trial_text import describe_bottleneck
from ddptui.report import devices, sentences
from ddptui.report.columns import (
    COLUMNS,
    GAP,
    IN_BACKWARD,
    IN_SOME_STEPS,
    LEFT,
    OFF_BY,
    Row,
    aggregation,
    fitting,
    is_stand_in,
    rows_of,
    telling,
    total,
    worths,
)
from ddptui.report.primitives import csv as export
from ddptui.report.primitives import render as of_primitives
from ddptui.report.references import sources, steps_beside
from ddptui.text.words import count

STYLES = {"failed": "red", "skipped": "dim", "ok": ""}


def text(results: Results, preset: Preset, width: int, *, color: bool = False) -> str:
    """The table and its notes, no line of the table wider than `width`: columns are left out, lines never broken."""
    if preset.kind == "primitives":
        return of_primitives.text(results, preset, width, color=color)
    rows = rows_of(results, preset)
    cells = {column.key: [column.header, *(column.cell(row) for row in rows)] for column in COLUMNS}
    padding = (0, GAP - 1, 0, 0)  # the box adds one
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=padding, header_style="bold")
    keys = fitting(cells, worths(rows), width)
    widths = {key: max(map(len, cells[key])) for key in keys}
    widths["trial"] -= max(0, total(widths) - width)  # a name may be cut, a figure never
    for key in keys:
        justify: Literal["left", "right"] = "left" if key in LEFT else "right"
        table.add_column(cells[key][0], justify=justify, width=widths[key], no_wrap=True, overflow="ellipsis")
    for line, row in enumerate(rows, start=1):
        table.add_row(*(cells[key][line] for key in keys), style=STYLES[row.result.status])
    console = Console(
        file=io.StringIO(),
        width=width,
        height=len(rows) + 2,  # with both given, and no environment, rich asks nothing of the terminal
        _environ={},
        force_terminal=color,
        color_system="standard" if color else None,
    )
    with console.capture() as captured:
        console.print(table, markup=False)
    lines = [line.rstrip() for line in captured.get().splitlines()]
    return "\n".join([preset.title, "", *lines, "", *notes(results, preset)]) + "\n"


def markdown(results: Results, preset: Preset) -> str:
    """All columns that say something, as a Markdown table with its notes."""
    if preset.kind == "primitives":
        return of_primitives.markdown(results, preset)
    rows = rows_of(results, preset)
    columns = telling({column.key: [column.cell(row) for row in rows] for column in COLUMNS})
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
    if preset.kind == "primitives":
        return export.as_csv(results, preset)
    output = io.StringIO()
    writer = csv.DictWriter(output, CSV_COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in rows_of(results, preset):
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
    rows = rows_of(results, preset)
    found = [f"ratio, speed-up: against {preset.baseline}"] if len(preset.trials) > 1 else []
    modes = {row.trial.launch: row for row in rows if row.result.repeats}
    if "dp" in modes and is_stand_in(modes["dp"]):
        found.append("¹ threads, CPU stand-in for nn.DataParallel")
    if "launch" in modes:
        found.append(f"{modes['launch'].result.name}: started by {_launcher(modes['launch'])}")
    found += devices.backends(results, preset)
    aggregations = {aggregation(row) for row in rows}
    if IN_BACKWARD in aggregations:
        found.append(f"{IN_BACKWARD} torch DDP aggregates while backward runs: its time is within that phase")
    if IN_SOME_STEPS in aggregations:
        found.append(f"{IN_SOME_STEPS} averages in some steps only: the median step has no aggregation")
    if any(repeat.wait_error_ms is not None and repeat.wait_ms is not None for repeat in _repeats(results)):
        found.append(f"wait ms {OFF_BY}: how far the ranks' clocks may put it off, and transfer ms with it")
    for row in rows:
        trial = row.result
        found += [f"{trial.name}: {words}" for words in sentences.of_trial(trial, row.trial)]
        found += [f"{trial.name}: {words}" for repeat in trial.repeats[-1:] for words in red(row.trial, repeat)]
        if dropped := sum(rank.dropped for repeat in trial.repeats for rank in repeat.ranks):
            found.append(f"{trial.name}: {count(dropped, 'message')} lost to a full queue: its figures lack them")
        if looked_at := next((repeat.looked_at for repeat in trial.repeats if repeat.looked_at), None):
            found.append(f"{trial.name}: phases, waiting and loss are of {looked_at:,} steps, spread over all of them")
        if refused := sum(repeat.refused for repeat in trial.repeats):
            found.append(f"{trial.name}: {count(refused, 'message')} refused: none of them is in the record")
        if trial.error:
            headline, *log = trial.error.splitlines()
            found.append("\n  ".join([f"{trial.name} failed: {headline}", *log]))
    found += devices.unexpected(results)
    found += sentences.cautions(results.trials)
    found += [f"published: {words}" for words in [*sources(preset), *steps_beside(results, preset)]]
    if results.status == "interrupted":
        found.append("interrupted: the table shows what was finished")
    return found


def _launcher(row: Row) -> str:
    """The module that started the ranks: a torch without torch.distributed.launch has torch.distributed.run."""
    modules = (word for word in row.result.command if word.startswith("torch.distributed."))
    return next(modules, LABELS["launch"])


def _repeats(results: Results) -> list[RepeatResult]:
    return [repeat for trial in results.trials for repeat in trial.repeats]


CSV_COLUMNS = (
    "trial", "repeat", "status", "error", "launch", "ranks", "strategy", "bottleneck", "bottleneck_fired",
    "bottleneck_s", "train_time_s", "startup_s", "steps", "samples_per_s", "step_ms", "step_ms_p10", "step_ms_p90",
    "data_ms", "forward_ms", "backward_ms", "aggregate_ms", "optimizer_ms", "wait_ms", "transfer_ms", "overlap",
    "wait_share", "transfer_share", "verdict", "culprit", "culprit_phase", "culprit_share", "wait_caused_s",
    "excess_s", "excess_low_s", "excess_high_s", "without_culprit_s", "without_skew_s", "loss_first", "loss_last",
    "accuracy", "parameters_in_sync", "buffers_in_sync", "averaging_right", "averaging_error", "averaging_scale",
    "reshuffled", "ratio", "speedup", "published_ratio", "clock_error_ms", "wait_error_ms",
    "backend", "backend_why", "peak_gpu_bytes_least", "peak_gpu_bytes_most",
)  # fmt: skip


def _csv_row(row: Row, number: int, repeat: RepeatResult) -> dict[str, object]:
    summary = row.result.summary
    phases = msgspec.structs.asdict(repeat.phases_ms) if repeat.phases_ms else {}
    culprit, without = repeat.culprit, repeat.what_if_s
    peaks = devices.peaks(repeat.ranks)
    return {
        "trial": row.result.name,
        "repeat": number,
        "status": row.result.status,
        "error": row.result.error,
        "launch": "dp (threads, CPU stand-in)" if is_stand_in(row) else row.trial.launch,
        "ranks": row.trial.world_size,
        "strategy": row.trial.strategy,
        "bottleneck": describe_bottleneck(row.trial.bottleneck),
        "bottleneck_fired": sum(rank.bottleneck_fired for rank in repeat.ranks),
        "bottleneck_s": sum(rank.bottleneck_s for rank in repeat.ranks),
        "train_time_s": repeat.train_time_s,
        "startup_s": repeat.startup_s,
        "steps": repeat.steps,
        "samples_per_s": repeat.samples_per_s,
        "step_ms": repeat.step_ms and repeat.step_ms.median,
        "step_ms_p10": repeat.step_ms and repeat.step_ms.p10,
        "step_ms_p90": repeat.step_ms and repeat.step_ms.p90,
        **{f"{phase}_ms": value for phase, value in phases.items()},
        "wait_ms": repeat.wait_ms,
        "transfer_ms": repeat.transfer_ms,
        "overlap": repeat.overlap,
        "wait_share": repeat.wait_share,
        "transfer_share": repeat.transfer_share,
        "verdict": repeat.verdict,
        "culprit": culprit and culprit.rank,
        "culprit_phase": culprit and culprit.phase,
        "culprit_share": culprit and culprit.share,
        "wait_caused_s": culprit and culprit.wait_caused_s,
        "excess_s": culprit and culprit.excess_s.estimate,
        "excess_low_s": culprit and culprit.excess_s.low,
        "excess_high_s": culprit and culprit.excess_s.high,
        "without_culprit_s": without and without.without_culprit,
        "without_skew_s": without and without.without_skew,
        "loss_first": repeat.loss.first,
        "loss_last": repeat.loss.last,
        "accuracy": repeat.accuracy,
        "parameters_in_sync": repeat.in_sync.parameters,
        "buffers_in_sync": repeat.in_sync.buffers,
        "averaging_right": repeat.averaging and repeat.averaging.right,
        "averaging_error": repeat.averaging and repeat.averaging.error,
        "averaging_scale": repeat.averaging and repeat.averaging.scale,
        "reshuffled": repeat.reshuffled,
        "ratio": summary.ratio.median if summary and summary.ratio else None,
        "speedup": summary.speedup if summary else None,
        "published_ratio": row.published,
        "clock_error_ms": repeat.clock_error_ms,
        "wait_error_ms": repeat.wait_error_ms,
        "backend": repeat.backend,
        "backend_why": repeat.backend_why,
        "peak_gpu_bytes_least": min(peaks, default=None),
        "peak_gpu_bytes_most": max(peaks, default=None),
    }
