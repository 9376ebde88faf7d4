"""The results of primitives as blocks, which text, Markdown and the page render, and as CSV."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from ddptui.analysis.primitive_results import (
    MOST_CV,
    MOST_MEDIAN,
    MOST_P90,
    BufferView,
    Cell,
    PrimitivesResult,
    by_operation,
    combined,
    is_uneven,
    rivals,
)
from ddptui.analysis.results import Results, TrialResult
from ddptui.config.catalog import Cadence
from ddptui.config.preset import Preset
from ddptui.config.trial import Trial
from ddptui.report import primitive_tables
from ddptui.report.blocks import Block, Drawing, Heading, Notes, Plot
from ddptui.report.exports import values_of
from ddptui.report.notes import note_lines
from ddptui.report.ranks import describe_nccl
from ddptui.report.rows import what_became
from ddptui.text.tables import as_csv as write_csv

CADENCES: dict[Cadence, str] = {
    "back_to_back": "calls follow each other immediately, as in nccl-tests",
    "barrier": "each call follows a barrier, whose time is not counted",
    "pipelined": "several calls are started, then waited for; their time is divided by their number",
}
PLOTTED = ("isend_irecv", "broadcast", "all_reduce", "all_gather")  # the plot's operations if no composites compete
UNEVEN = (
    f"{primitive_tables.MARK} the calls vary a lot (CV above {MOST_CV:.0%}, p90 above {MOST_P90:g}"
    f" medians, or the median above {MOST_MEDIAN:g} times the minimum): "
)
TOO_MUCH_WORK = "other programs use the cores, or there are more ranks than cores, so ranks have to wait for a core"
TICK = (
    "some calls wait for the scheduler's tick (4 ms at 250 Hz); sched_batch = true (SCHED_BATCH), or pinning each rank"
    " to its own core, avoids that"
)


def primitive_blocks(results: Results, preset: Preset) -> Iterator[Block]:
    """The blocks of the report, trial by trial, with the notes at the end."""
    trials = {trial.name: trial for trial in preset.trials}
    for result in results.trials:
        if result.primitives:
            yield from _of_trial(result.primitives, trials[result.name])
        if result.status == "skipped":
            yield Notes([f"{result.name} {what_became(result)}"])
    yield Notes(note_lines(results, preset))


def _of_trial(launches: Sequence[PrimitivesResult], trial: Trial) -> Iterator[Block]:
    result = combined(launches)
    yield Heading(f"{trial.name}: {result.ranks} ranks, {result.backend}", 3)
    yield Notes([describe_nccl(result.nccl)])
    for view in result.views:
        yield from (Heading(primitive_tables.heading(view)), Drawing(partial(primitive_tables.buffer_lines, view)))
    yield Notes([primitive_tables.LEGEND] if result.views else [])
    if result.cells:
        yield from _measured(result, trial, len(launches))


def _measured(result: PrimitivesResult, trial: Trial, repeats: int) -> Iterator[Block]:
    launches = f", and of {repeats} launches" if repeats > 1 else ""
    cadence = f"cadence: {CADENCES[result.cadence]}; warm-up left out; every element checked (#wrong)"
    units = "1 KB is 1024 bytes; algbw, busbw in GB/s of 1e9 bytes"
    yield Notes([cadence, f"times are means over ranks, then over calls{launches}; {units}"])
    measured = by_operation(result.cells)
    for key, cells in measured.items():
        yield from (Heading(primitive_tables.size_heading(key, result.cadence)), primitive_tables.of_cells(cells))
        yield Notes([*dict.fromkeys(f"not done: {cell.error.splitlines()[0]}" for cell in cells if cell.error)])
    remedy = TOO_MUCH_WORK if trial.sched_batch else TICK
    yield Notes([UNEVEN + remedy] if any(map(is_uneven, result.cells)) else [])
    timed = {key: [cell for cell in cells if cell.time_us] for key, cells in measured.items()}
    ways = rivals(key for key, cells in timed.items() if cells)
    plotted = ways if len(ways) > 1 else [key for key in timed if key.operation in PLOTTED]
    if any(len(timed[key]) > 1 for key in plotted):  # a line needs at least two sizes
        yield Plot(result, plotted)


def _same(*names: str) -> dict[str, str]:
    return {name: name for name in names}


# For each CSV column, the path of its value in a launch, a measured cell or a view. Scripts read these names.
LAUNCH = _same("ranks", "backend", "cadence")
CELL = {
    **_same("operation", "composite", "reduce_op", "bytes", "calls"),
    **{f"{figure}_us": f"time_us.{figure}" for figure in ("min", "median", "mean", "p90", "p99")},
    **_same("cv", "algbw_gb_s", "busbw_gb_s", "wrong", "slowest", "slowest_us", "in_flight", "error"),
}
VIEW = _same("operation", "reduce_op", "root", "error")
RANK = _same("rank", "call")
BUFFER: dict[str, str | Callable[[BufferView], object]] = {
    "buffer": "name",
    "parts": "parts",
    "before": lambda buffer: _numbers(buffer.before),
    "after": lambda buffer: _numbers(buffer.after),
    "undefined": "undefined",
}
OF_ALL = ("status", "error")  # after those of one run
OF_TWO_RUNS: dict[str, str | Callable[[Cell], object]] = {
    "ratio": lambda cell: cell.ratio.median if cell.ratio else None,
    "ratio_low": lambda cell: cell.ratio.low if cell.ratio else None,
    "ratio_high": lambda cell: cell.ratio.high if cell.ratio else None,
}
# A column that cells and views share is named once, at its first place.
PRIMITIVE_CSV = [
    key for key in dict.fromkeys(["trial", "repeat", *LAUNCH, *CELL, *VIEW, *RANK, *BUFFER]) if key not in OF_ALL
]
PRIMITIVE_CSV += [*OF_ALL, *OF_TWO_RUNS]


def primitives_as_csv(results: Results) -> str:
    """CSV with one line for each measured cell of each launch, or one for each buffer of shown primitives."""
    return write_csv(PRIMITIVE_CSV, (fields for trial in results.trials for fields in _lines(trial)))


def _lines(trial: TrialResult) -> Iterator[dict[str, object]]:
    of_trial = {"trial": trial.name, "status": trial.status}
    if not trial.primitives:  # a line with the error, for scripts
        yield of_trial | {"error": trial.error}
    for number, launch in enumerate(trial.primitives, start=1):
        of_launch = of_trial | {"repeat": number} | values_of(launch, LAUNCH)
        yield from (of_launch | values_of(cell, CELL) | values_of(cell, OF_TWO_RUNS) for cell in launch.cells)
        for view in launch.views:
            of_view = of_launch | values_of(view, VIEW) | {"composite": False}
            if view.error:  # if the backend refused the call, the view has no ranks
                yield of_view
            for rank in view.ranks:
                of_rank = of_view | values_of(rank, RANK)
                yield from (of_rank | values_of(buffer, BUFFER) for buffer in rank.buffers)


def _numbers(values: Sequence[float | None] | None) -> str | None:
    """The values, separated by spaces; None if there is no such buffer."""
    return None if values is None else " ".join("nan" if value is None else repr(value) for value in values)
