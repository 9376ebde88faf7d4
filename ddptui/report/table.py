"""The comparison as terminal text, Markdown, CSV and JSON."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ddptui.analysis.cautions import Caution
from ddptui.analysis.counted import why_left_out
from ddptui.analysis.results import RepeatResult, Results
from ddptui.config.preset import Preset
from ddptui.config.trial_text import describe_bottleneck
from ddptui.report import gpus, ranks
from ddptui.report.columns import AT_LEAST, IN_BACKWARD, IN_SOME_STEPS, columns_of
from ddptui.report.exports import joined, json_text, values_of
from ddptui.report.matrices import matrices
from ddptui.report.notes import OF_LOSS, answer, note_lines
from ddptui.report.primitives import render as primitives
from ddptui.report.rows import Row, is_stand_in, rows_of
from ddptui.text import tables
from ddptui.text.tables import DIM, RED, Table
from ddptui.text.words import paragraph
from ddptui.wire.phases import PHASES

LOSS = " loss"  # within a header
WIDE = 100  # cells of matrices in Markdown, where no terminal gives the width
STYLES = {"failed": RED, "skipped": DIM}  # of a trial's row, by its status


def text(results: Results, preset: Preset, width: int, *, color: bool = False, usual: Sequence[str] = ()) -> str:
    """The table and its notes; no line of the table is wider than `width`. usual: keys of the columns that
    the user wants seen of every preset."""
    if preset.kind == "primitives":
        return primitives.text(results, preset, width, color=color)
    table = tables.as_text(_table(results, preset, usual), width, color=color)
    times, on_gpus = ranks.where_time_goes(results), gpus.of_ranks(results)
    blocks = [
        paragraph(preset.title, width),
        paragraph(" ".join(answer(results)), width),
        table,
        [times[0], *tables.as_text(times[1], width, color=color)] if times else [],
        [gpus.HEADING, *tables.as_text(on_gpus, width, color=color)] if on_gpus else [],
        matrices(results, width),
        [note for note in note_lines(results, preset) if any(_sign(note) in line for line in table)],
    ]
    return joined(blocks)


def _sign(note: str) -> str:
    """What a table holds if a note on one of its columns has its place; empty: any table does."""
    return LOSS if note == OF_LOSS else note[:1] if note[:1] in (IN_BACKWARD, IN_SOME_STEPS) else ""


def markdown(results: Results, preset: Preset) -> str:
    """Every column that has a value, as a Markdown table with its notes."""
    if preset.kind == "primitives":
        return primitives.markdown(results, preset)
    drawn, times, on_gpus = matrices(results, WIDE), ranks.where_time_goes(results), gpus.of_ranks(results)
    blocks = [
        [f"## {preset.title}"],
        [" ".join(answer(results))],
        tables.as_markdown(_table(results, preset)),
        [times[0], "", *tables.as_markdown(times[1])] if times else [],
        [gpus.HEADING, "", *tables.as_markdown(on_gpus)] if on_gpus else [],
        ["```text", *drawn, "```"] if drawn else [],
        [f"- {line}" for line in note_lines(results, preset)],
    ]
    return joined(blocks)


def _table(results: Results, preset: Preset, usual: Sequence[str] = ()) -> Table:
    rows = rows_of(results, preset)
    styles = {place: STYLES[row.result.status] for place, row in enumerate(rows) if row.result.status in STYLES}
    return Table(columns_of(rows, preset.columns, usual), styles, AT_LEAST)


def as_json(results: Results, preset: Preset) -> str:
    """results.json."""
    return json_text(results)


class Line(NamedTuple):
    """A line of the CSV file: one repeat of a trial. Repeats are numbered from 1."""

    row: Row
    number: int
    repeat: RepeatResult


# By column: the path of its value from the line, or what computes it. Scripts read these names: add, never rename.
CSV: dict[str, str | Callable[[Line], object]] = {
    "trial": "row.result.name",
    "repeat": "number",
    "status": "row.result.status",
    "error": "row.result.error",
    "launch": lambda line: "dp (threads, CPU stand-in)" if is_stand_in(line.row) else line.row.trial.launch,
    "ranks": "row.ranks",
    "strategy": "row.trial.strategy",
    "bottleneck": lambda line: describe_bottleneck(line.row.trial.bottleneck),
    "bottleneck_fired": lambda line: sum(rank.bottleneck_fired for rank in line.repeat.ranks),
    "bottleneck_s": lambda line: sum(rank.bottleneck_s for rank in line.repeat.ranks),
    **{name: f"repeat.{name}" for name in ("train_time_s", "startup_s", "steps", "samples_per_s")},
    "step_ms": "repeat.step_ms.median",
    **{f"step_ms_{name}": f"repeat.step_ms.{name}" for name in ("p10", "p90")},
    **{f"{phase}_ms": f"repeat.phases_ms.{phase}" for phase in PHASES},
    **{name: f"repeat.{name}" for name in ("wait_ms", "transfer_ms", "overlap", "wait_share", "transfer_share")},
    "verdict": "repeat.verdict",
    "culprit": "repeat.culprit.rank",
    **{f"culprit_{name}": f"repeat.culprit.{name}" for name in ("phase", "share")},
    "wait_caused_s": "repeat.culprit.wait_caused_s",
    "excess_s": "repeat.culprit.excess_s.estimate",
    **{f"excess_{bound}_s": f"repeat.culprit.excess_s.{bound}" for bound in ("low", "high")},
    **{f"{name}_s": f"repeat.what_if_s.{name}" for name in ("without_culprit", "without_skew")},
    **{f"loss_{name}": f"repeat.loss.{name}" for name in ("first", "last")},
    "accuracy": "repeat.accuracy",
    **{f"{name}_in_sync": f"repeat.in_sync.{name}" for name in ("parameters", "buffers")},
    **{f"averaging_{name}": f"repeat.averaging.{name}" for name in ("right", "error", "scale")},
    "reshuffled": "repeat.reshuffled",
    "ratio": "row.result.summary.ratio.median",
    "speedup": "row.result.summary.speedup",
    "published_ratio": "row.published",
    **{name: f"repeat.{name}" for name in ("clock_error_ms", "wait_error_ms", "backend", "backend_why")},
    "peak_gpu_bytes_least": lambda line: min(ranks.peaks(line.repeat.ranks), default=None),
    "peak_gpu_bytes_most": lambda line: max(ranks.peaks(line.repeat.ranks), default=None),
    "left_out": lambda line: why_left_out(line.repeat, line.row.result.repeats),  # of ratios and medians
    **{name: f"repeat.{name}" for name in ("tflops", "mfu", "joules_a_step")},
    "peak_gpu_reserved_bytes_least": lambda line: min(ranks.reserved_peaks(line.repeat.ranks), default=None),
    "peak_gpu_reserved_bytes_most": lambda line: max(ranks.reserved_peaks(line.repeat.ranks), default=None),
    **{f"nccl_{name}": f"repeat.nccl.{name}" for name in ("version", "implementation")},
    "sm_mhz_least": lambda line: min(ranks.clocks(line.repeat.ranks), default=None),
    "held_back_part": lambda line: max((rank.held_back_part or 0.0 for rank in line.repeat.ranks), default=0.0) or None,
    "host_time": lambda line: Caution.HOST_TIME in line.repeat.warnings,  # phases and steps
}


def as_csv(results: Results, preset: Preset) -> str:
    """A line a repeat of each trial, every figure in full; of a trial without repeats, its status and error."""
    if preset.kind == "primitives":
        return primitives.as_csv(results)
    return tables.as_csv([*CSV], (fields for row in rows_of(results, preset) for fields in _lines(row)))


def _lines(row: Row) -> Iterator[dict[str, object]]:
    for number, repeat in enumerate(row.result.repeats, start=1):
        yield values_of(Line(row, number, repeat), CSV)
    if not row.result.repeats:
        yield {"trial": row.result.name, "status": row.result.status, "error": row.result.error}


FORMATS: dict[str, Callable[[Results, Preset], str]] = {"markdown": markdown, "csv": as_csv, "json": as_json}
