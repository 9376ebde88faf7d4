"""The results of primitives as CSV: every figure in full."""

from collections.abc import Iterator, Sequence

from ddptui.analysis.primitives.results import BufferView, Cell, PrimitivesResult, RankView
from ddptui.analysis.results import Results, TrialResult
from ddptui.config.preset import Preset
from ddptui.text import tables

INDEPENDENT = ("trial", "repeat", "ranks", "backend", "cadence", "operation", "composite", "reduce_op", "bytes")
FIGURES = (
    "calls", "min_us", "median_us", "mean_us", "p90_us", "p99_us", "cv", "algbw_gb_s", "busbw_gb_s", "wrong",
    "slowest", "slowest_us",
)  # fmt: skip
SEEN = ("root", "rank", "call", "buffer", "parts", "before", "after", "undefined")
COLUMNS = (*INDEPENDENT, *FIGURES, *SEEN, "status", "error")

Fields = dict[str, object]


def as_csv(results: Results, preset: Preset) -> str:
    """The file: a line for each combination of INDEPENDENT variables; of primitives only shown, a line a buffer.

    A trial without either has a line with its status and error.
    """
    return tables.as_csv(COLUMNS, (fields for trial in results.trials for fields in _of_trial(trial)))


def _of_trial(trial: TrialResult) -> Iterator[Fields]:
    for number, repeat in enumerate(trial.primitives, start=1):
        common = {"trial": trial.name, "repeat": number, "status": trial.status} | _of_launch(repeat)
        yield from (common | fields for fields in _lines(repeat))
    if not trial.primitives:
        yield {"trial": trial.name, "status": trial.status, "error": trial.error}


def _of_launch(repeat: PrimitivesResult) -> Fields:
    return {"ranks": repeat.ranks, "backend": repeat.backend, "cadence": repeat.cadence}


def _lines(repeat: PrimitivesResult) -> Iterator[Fields]:
    yield from map(_of_cell, repeat.cells)
    for view in repeat.views:
        common: Fields = {
            "operation": view.operation,
            "composite": False,
            "reduce_op": view.reduce_op,
            "root": view.root,
            "error": view.error,
        }
        if view.error:
            yield common
        for rank in view.ranks:
            yield from (common | _of_buffer(rank, buffer) for buffer in rank.buffers)


def _of_cell(cell: Cell) -> Fields:
    time = cell.time_us
    return {
        "operation": cell.operation,
        "composite": cell.composite,
        "reduce_op": cell.reduce_op,
        "bytes": cell.bytes,
        "calls": cell.calls,
        "min_us": time and time.min,
        "median_us": time and time.median,
        "mean_us": time and time.mean,
        "p90_us": time and time.p90,
        "p99_us": time and time.p99,
        "cv": cell.cv,
        "algbw_gb_s": cell.algbw_gb_s,
        "busbw_gb_s": cell.busbw_gb_s,
        "wrong": cell.wrong,
        "slowest": cell.slowest,
        "slowest_us": cell.slowest_us,
        "error": cell.error,
    }


def _of_buffer(rank: RankView, buffer: BufferView) -> Fields:
    return {
        "rank": rank.rank,
        "call": rank.call,
        "buffer": buffer.name,
        "parts": buffer.parts,
        "before": _numbers(buffer.before),
        "after": _numbers(buffer.after),
        "undefined": buffer.undefined,
    }


def _numbers(values: Sequence[float | None] | None) -> str | None:
    """The values, with spaces between them; None if there is no such buffer."""
    return None if values is None else " ".join("nan" if value is None else repr(value) for value in values)
