"""The results of primitives as CSV: every figure in full."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from ddptui.analysis.primitives.results import BufferView, PrimitivesResult, RankView
from ddptui.analysis.results import Results, TrialResult
from ddptui.config.preset import Preset
from ddptui.report.csv import value_at
from ddptui.text import tables

Fields = dict[str, object]

# Column: where its value is in a launch, in a measured cell, and in a shown view.
LAUNCH = {name: name for name in ("ranks", "backend", "cadence")}
CELL = {
    **{name: name for name in ("operation", "composite", "reduce_op", "bytes", "calls")},
    **{f"{figure}_us": f"time_us.{figure}" for figure in ("min", "median", "mean", "p90", "p99")},
    **{name: name for name in ("cv", "algbw_gb_s", "busbw_gb_s", "wrong", "slowest", "slowest_us")},
}
VIEW = {name: name for name in ("operation", "reduce_op", "root")}
BUFFER: dict[str, Callable[[RankView, BufferView], object]] = {
    "rank": lambda rank, _: rank.rank,
    "call": lambda rank, _: rank.call,
    "buffer": lambda _, buffer: buffer.name,
    "parts": lambda _, buffer: buffer.parts,
    "before": lambda _, buffer: _numbers(buffer.before),
    "after": lambda _, buffer: _numbers(buffer.after),
    "undefined": lambda _, buffer: buffer.undefined,
}
COLUMNS = [*dict.fromkeys(["trial", "repeat", *LAUNCH, *CELL, *VIEW, *BUFFER, "status", "error"])]


def as_csv(results: Results, preset: Preset) -> str:
    """The file: a line for each measured cell of each launch; of primitives that were only shown, a line a buffer.

    A trial without either has a line with its status and error.
    """
    return tables.as_csv(COLUMNS, (fields for trial in results.trials for fields in _of_trial(trial)))


def _of_trial(trial: TrialResult) -> Iterator[Fields]:
    for number, launch in enumerate(trial.primitives, start=1):
        common = {"trial": trial.name, "repeat": number, "status": trial.status} | _fields(LAUNCH, launch)
        yield from (common | fields for fields in _lines(launch))
    if not trial.primitives:
        yield {"trial": trial.name, "status": trial.status, "error": trial.error}


def _lines(launch: PrimitivesResult) -> Iterator[Fields]:
    for cell in launch.cells:
        yield _fields(CELL, cell) | {"error": cell.error}
    for view in launch.views:
        common = _fields(VIEW, view) | {"composite": False, "error": view.error}
        if view.error:
            yield common
        for rank in view.ranks:
            for buffer in rank.buffers:
                yield common | {name: value(rank, buffer) for name, value in BUFFER.items()}


def _fields(paths: Mapping[str, str], part: object) -> Fields:
    return {name: value_at(part, path) for name, path in paths.items()}


def _numbers(values: Sequence[float | None] | None) -> str | None:
    """The values, with spaces between them; None if there is no such buffer."""
    return None if values is None else " ".join("nan" if value is None else repr(value) for value in values)
