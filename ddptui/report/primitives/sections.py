"""The results of primitives as a sequence of blocks, which text and Markdown render."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from ddptui.analysis.primitives.cells import (
    MOST_CV,
    MOST_MEDIAN,
    MOST_P90,
    PrimitiveKey,
    by_operation,
    combined,
    is_uneven,
    rivals,
)
from ddptui.analysis.primitives.results import PrimitivesResult
from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.config.primitives import Cadence
from ddptui.config.trial import Trial
from ddptui.findings.primitives import cost_of_call, how_long
from ddptui.findings.words import in_sentences
from ddptui.report import gpus
from ddptui.report.notes import damage, failure, missing_repeats
from ddptui.report.primitives import grid, tables
from ddptui.report.primitives.plot import draw
from ddptui.report.ranks import describe_nccl
from ddptui.report.rows import what_became
from ddptui.text.drawing import Line
from ddptui.text.tables import Table

CADENCES: dict[Cadence, str] = {
    "back_to_back": "calls follow each other at once, as nccl-tests streams them",
    "barrier": "each call follows a barrier, whose time is not counted",
    "pipelined": "several calls are begun, then waited for; a call's time is theirs divided by their number",
}
PLOT_HEIGHT = 16  # lines
PLOTTED = ("isend_irecv", "broadcast", "all_reduce", "all_gather")  # where nothing is to be compared
UNEVEN = (
    f"{tables.MARK} its calls differ much among each other (CV above {MOST_CV:.0%}, p90 above {MOST_P90:g}"
    f" medians, or the median above {MOST_MEDIAN:g} times the least): "
)
TOO_MUCH_WORK = "there is other work on the machine, or more ranks than cores: a rank waits until it is its turn"
TICK = (
    "some calls wait for the scheduler's tick (4 ms at 250 Hz), others do not: sched_batch = true (SCHED_BATCH), or"
    " ranks pinned to cores of their own, avoid that"
)


class Heading(NamedTuple):
    """level: as in Markdown."""

    words: str
    level: int


class Notes(NamedTuple):
    """Sentences, one a line."""

    lines: Sequence[str]


class Drawing(NamedTuple):
    """A grid of buffers; `draw` returns its lines for a width."""

    draw: Callable[[int], list[Line]]


class Plot(NamedTuple):
    """The times of some operations over sizes."""

    result: PrimitivesResult
    operations: Sequence[PrimitiveKey]

    def draw(self, width: int) -> list[Line]:
        """The lines of the plot for a width."""
        return draw(self.result, self.operations, width, PLOT_HEIGHT)


Block = Heading | Notes | Drawing | Plot | Table


def blocks(results: Results, preset: Preset) -> Iterator[Block]:
    """The blocks, trial by trial, and at the end what went wrong."""
    trials = {trial.name: trial for trial in preset.trials}
    if machine := gpus.machine(results):
        yield Notes([machine])
    for result in results.trials:
        if result.primitives:
            yield from _of_trial(result.primitives, trials[result.name])
    if notes := failures(results):
        yield Notes(notes)


def failures(results: Results) -> list[str]:
    """A line for each damaged journal, and for each trial that lacks figures, with the end of its log."""
    lines = damage(results.unread or ())
    for trial in results.trials:
        if trial.error or trial.status != "ok":
            lines.append(failure(trial) if trial.error else f"{trial.name} {what_became(trial)}")
        lines += [f"{trial.name}: {line}" for line in missing_repeats(trial, results)]
    if results.status == "interrupted":
        lines.append("interrupted: what is shown is what was finished")
    return lines


def _of_trial(launches: Sequence[PrimitivesResult], trial: Trial) -> Iterator[Block]:
    result = combined(launches)
    yield Heading(f"{trial.name}: {result.ranks} ranks, {result.backend}", 3)
    if result.nccl:
        yield Notes([describe_nccl(result.nccl)])
    for view in result.views:
        yield Heading(grid.heading(view), 4)
        yield Drawing(partial(grid.grid, view))
    if result.views:
        yield Notes([grid.LEGEND])
    if result.cells:
        yield from _measured(result, trial, len(launches))
    if sentences := in_sentences([*how_long(launches), *cost_of_call(launches)]):
        yield Heading("What it means", 4)
        yield Notes(sentences)


def _measured(result: PrimitivesResult, trial: Trial, repeats: int) -> Iterator[Block]:
    launches = f", and of {repeats} launches" if repeats > 1 else ""
    cadence = f"cadence: {CADENCES[result.cadence]}; warm-up left out; every element checked (#wrong)"
    units = "1 KB is 1024 bytes; algbw, busbw in GB/s of 1e9 bytes"
    yield Notes([cadence, f"times are means over ranks, then over calls{launches}; {units}"])
    measured = by_operation(result.cells)
    for key, cells in measured.items():
        yield Heading(tables.heading(key, result.cadence), 4)
        yield tables.of_cells(cells)
        if refusals := dict.fromkeys(f"not done: {cell.error.splitlines()[0]}" for cell in cells if cell.error):
            yield Notes([*refusals])
    if any(is_uneven(cell) for cell in result.cells):
        yield Notes([UNEVEN + (TOO_MUCH_WORK if trial.sched_batch else TICK)])
    timed = {key: [cell for cell in cells if cell.time_us] for key, cells in measured.items()}
    ways = rivals(key for key, cells in timed.items() if cells)
    plotted = ways if len(ways) > 1 else [key for key in timed if key.operation in PLOTTED]
    if any(len(timed[key]) > 1 for key in plotted):  # of one size there is no line
        yield Plot(result, plotted)
