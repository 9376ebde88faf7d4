"""The comparison as CSV: a line a repeat of each trial, every figure in full; a column is one entry in COLUMNS."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from ddptui.analysis.results import RepeatResult, Results
from ddptui.config.preset import Preset
from ddptui.config.trial_text import describe_bottleneck
from ddptui.report import devices
from ddptui.report.columns import Row, is_stand_in, rows_of
from ddptui.text import tables


class Line(NamedTuple):
    """One repeat of a trial; they are numbered from 1."""

    row: Row
    number: int
    repeat: RepeatResult


Getter = Callable[[Line], object]


def as_csv(results: Results, preset: Preset) -> str:
    """The file; a trial without repeats has a line with its status and error."""
    return tables.as_csv([*COLUMNS], (fields for row in rows_of(results, preset) for fields in _lines(row)))


def _lines(row: Row) -> Iterator[dict[str, object]]:
    for number, repeat in enumerate(row.result.repeats, start=1):
        yield {name: value(Line(row, number, repeat)) for name, value in COLUMNS.items()}
    if not row.result.repeats:
        yield {"trial": row.result.name, "status": row.result.status, "error": row.result.error}


def value_at(part: object, path: str) -> object:
    """What a part of results.json has at a path, as in culprit.rank; None where a part of the path is missing."""
    for name in path.split("."):
        part = getattr(part, name) if part is not None else None
    return part


def _at(path: str) -> Getter:
    return lambda line: value_at(line.repeat, path)


def _alike(*names: str) -> dict[str, Getter]:
    """Columns that are named as in results.json."""
    return {name: _at(name) for name in names}


def _launch(line: Line) -> str:
    return "dp (threads, CPU stand-in)" if is_stand_in(line.row) else line.row.trial.launch


def _peaks(line: Line) -> list[int]:
    return devices.peaks(line.repeat.ranks)


COLUMNS: dict[str, Getter] = {
    "trial": lambda line: line.row.result.name,
    "repeat": lambda line: line.number,
    "status": lambda line: line.row.result.status,
    "error": lambda line: line.row.result.error,
    "launch": _launch,
    "ranks": lambda line: line.row.trial.world_size,
    "strategy": lambda line: line.row.trial.strategy,
    "bottleneck": lambda line: describe_bottleneck(line.row.trial.bottleneck),
    "bottleneck_fired": lambda line: sum(rank.bottleneck_fired for rank in line.repeat.ranks),
    "bottleneck_s": lambda line: sum(rank.bottleneck_s for rank in line.repeat.ranks),
    **_alike("train_time_s", "startup_s", "steps", "samples_per_s"),
    "step_ms": _at("step_ms.median"),
    "step_ms_p10": _at("step_ms.p10"),
    "step_ms_p90": _at("step_ms.p90"),
    "data_ms": _at("phases_ms.data"),
    "forward_ms": _at("phases_ms.forward"),
    "backward_ms": _at("phases_ms.backward"),
    "aggregate_ms": _at("phases_ms.aggregate"),
    "optimizer_ms": _at("phases_ms.optimizer"),
    **_alike("wait_ms", "transfer_ms", "overlap", "wait_share", "transfer_share", "verdict"),
    "culprit": _at("culprit.rank"),
    "culprit_phase": _at("culprit.phase"),
    "culprit_share": _at("culprit.share"),
    "wait_caused_s": _at("culprit.wait_caused_s"),
    "excess_s": _at("culprit.excess_s.estimate"),
    "excess_low_s": _at("culprit.excess_s.low"),
    "excess_high_s": _at("culprit.excess_s.high"),
    "without_culprit_s": _at("what_if_s.without_culprit"),
    "without_skew_s": _at("what_if_s.without_skew"),
    "loss_first": _at("loss.first"),
    "loss_last": _at("loss.last"),
    "accuracy": _at("accuracy"),
    "parameters_in_sync": _at("in_sync.parameters"),
    "buffers_in_sync": _at("in_sync.buffers"),
    "averaging_right": _at("averaging.right"),
    "averaging_error": _at("averaging.error"),
    "averaging_scale": _at("averaging.scale"),
    "reshuffled": _at("reshuffled"),
    "ratio": lambda line: line.row.ratio,
    "speedup": lambda line: line.row.speedup,
    "published_ratio": lambda line: line.row.published,
    **_alike("clock_error_ms", "wait_error_ms", "backend", "backend_why"),
    "peak_gpu_bytes_least": lambda line: min(_peaks(line), default=None),
    "peak_gpu_bytes_most": lambda line: max(_peaks(line), default=None),
}
