"""The result of a run as terminal text, Markdown, CSV and JSON; with the questions of a lesson beside their cells."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from ddptui.analysis.policy import Caution
from ddptui.analysis.repeats import why_left_out
from ddptui.analysis.results import RepeatResult, Results
from ddptui.config.preset import Preset
from ddptui.config.values import describe_bottleneck
from ddptui.report import primitive_report as primitives
from ddptui.report.blocks import Block, Drawing, Heading, Notes, Quote, as_markdown, as_text
from ddptui.report.columns import AT_LEAST, columns_of
from ddptui.report.exports import json_text, values_of
from ddptui.report.matrix import matrices, side_by_side
from ddptui.report.notes import note_lines
from ddptui.report.ranks import UNREAD, Source, known, place_tables, rank_tables
from ddptui.report.rows import Row, is_stand_in, rows_of
from ddptui.text import tables
from ddptui.text.tables import DIM, RED, Filled, Table, telling
from ddptui.wire.phases import PHASES

UNANSWERED = "Not answered yet."


class Asked(NamedTuple):
    """A question, what the run shows of it, and the answer; empty if there is none yet."""

    text: str
    evidence: Sequence[Filled]  # the trials' names and their cells; empty if the question names no columns
    answer: str


def asked(preset: Preset, results: Results, answers: Sequence[str]) -> list[Asked]:
    """The preset's questions, in order. answers: one for each, as `Run.answers` returns them; if there are none, the
    questions are not shown."""
    if not answers:
        return []
    rows = rows_of(results, preset) if preset.kind != "primitives" else []
    found = []
    for question, answer in zip(preset.questions, answers, strict=True):
        about = [row for row in rows if not question.trials or row.result.name in question.trials]
        shown = ("trial", *question.columns) if question.columns else ()
        evidence = [column for column in columns_of(about) if column.key in shown] if about else []
        found.append(Asked(question.localized_text, evidence, answer))
    return found


def lesson_blocks(questions: Sequence[Asked], before: str = "", level: int = 3) -> Iterator[Block]:
    """The questions as blocks of a report. before: each question's number; level: of the heading above them."""
    if questions:
        yield Heading("Questions", level)
    for number, (text, evidence, answer) in enumerate(questions, start=1):
        yield Heading(f"{before}{number}. {text}", level + 1)
        if len(telling(evidence)) > 1:  # more than the names of trials
            yield Table(evidence)
        yield Quote(answer.strip() or UNANSWERED)


STYLES = {"failed": RED, "skipped": DIM}  # the style of a trial's row, by its status


def text(
    results: Results,
    preset: Preset,
    width: int,
    *,
    color: bool = False,
    pinned: Sequence[str] = (),
    source: Source = UNREAD,
    answers: Sequence[str] = (),
) -> str:
    """The question, its answer, the tables and the notes. Tables are at most `width` columns wide. pinned: keys of the
    table's columns in the user's settings. source: reads lines of code. answers: to the questions of a lesson, which
    come last; empty: without them."""
    blocks = [*_blocks(results, preset, source, width, pinned), *lesson_blocks(asked(preset, results, answers))]
    return as_text(results, preset, blocks, width, color=color)


def markdown(results: Results, preset: Preset, source: Source = UNREAD, answers: Sequence[str] = ()) -> str:
    """The question, its answer, the tables and the notes as Markdown, with every column that has a value. answers: as
    for `text`."""
    return as_markdown(
        results, preset, [*_blocks(results, preset, source), *lesson_blocks(asked(preset, results, answers))]
    )


def _blocks(
    results: Results, preset: Preset, source: Source, width: int | None = None, pinned: Sequence[str] = ()
) -> Iterator[Block]:
    """The blocks of the report. width: the terminal's; None: all columns are shown."""
    if preset.kind == "primitives":
        yield from primitives.primitive_blocks(results, preset)
        return
    rows = rows_of(results, preset)
    styles = {place: STYLES[row.result.status] for place, row in enumerate(rows) if row.result.status in STYLES}
    yield Table(columns_of(rows, preset.columns, pinned), styles, AT_LEAST)
    for heading, of_ranks in (rank_tables(results) | place_tables(results, source, width)).items():
        yield from (Heading(heading), of_ranks)
    if waited := matrices(results):
        yield from (Heading("Who waited for whom"), Drawing(partial(side_by_side, waited)))
    yield Notes(note_lines(results, preset))


def as_json(results: Results, preset: Preset, *_: object) -> str:
    """The text of results.json."""
    return json_text(results)


class RepeatLine(NamedTuple):
    """A line of the CSV file: one repeat of a trial. number: the repeat's, from 1."""

    row: Row
    number: int
    repeat: RepeatResult


def _of_ranks(pick: Callable[..., Any], figure: str) -> Callable[[RepeatLine], object]:
    return lambda line: pick(known(line.repeat.ranks, figure), default=None)


# For each column, the path of its value from a Line, or a function. Scripts read these names: add, never rename.
REPEAT_CSV: dict[str, str | Callable[[RepeatLine], object]] = {
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
    "peak_gpu_bytes_least": _of_ranks(min, "peak_gpu_bytes"),
    "peak_gpu_bytes_most": _of_ranks(max, "peak_gpu_bytes"),
    "left_out": lambda line: why_left_out(line.repeat, line.row.result.repeats),  # why, from ratios and medians
    **{name: f"repeat.{name}" for name in ("tflops", "mfu", "joules_a_step")},
    "peak_gpu_reserved_bytes_least": _of_ranks(min, "peak_gpu_reserved_bytes"),
    "peak_gpu_reserved_bytes_most": _of_ranks(max, "peak_gpu_reserved_bytes"),
    **{f"nccl_{name}": f"repeat.nccl.{name}" for name in ("version", "implementation")},
    "sm_mhz_least": _of_ranks(min, "sm_mhz"),
    "held_back_part": lambda line: max((rank.held_back_part or 0.0 for rank in line.repeat.ranks), default=0.0) or None,
    "host_time": lambda line: Caution.HOST_TIME in line.repeat.warnings,  # for phases and steps
    **{name: f"repeat.{name}" for name in ("batch_s", "epoch_s", "epoch_is_estimate")},
}


def as_csv(results: Results, preset: Preset, *_: object) -> str:
    """CSV with one line for each repeat of each trial; a trial without repeats has one line with status and error."""
    if preset.kind == "primitives":
        return primitives.primitives_as_csv(results)
    return tables.as_csv([*REPEAT_CSV], (fields for row in rows_of(results, preset) for fields in _lines(row)))


def _lines(row: Row) -> Iterator[dict[str, object]]:
    for number, repeat in enumerate(row.result.repeats, start=1):
        yield values_of(RepeatLine(row, number, repeat), REPEAT_CSV)
    if not row.result.repeats:
        yield {"trial": row.result.name, "status": row.result.status, "error": row.result.error}


# Called with results, a preset and, if lines of code may be shown, a Source; then the answers to a lesson's questions.
FORMATS: dict[str, Callable[..., str]] = {"markdown": markdown, "csv": as_csv, "json": as_json}
