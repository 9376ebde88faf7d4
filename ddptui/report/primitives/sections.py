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
    key_of,
)
from ddptui.analysis.primitives.crossover import CLEAR, overtakings, rivals, steady_times
from ddptui.analysis.primitives.fit import Fit, fit_all, network_of
from ddptui.analysis.primitives.results import PrimitivesResult
from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.config.primitives import Cadence
from ddptui.config.trial import Trial
from ddptui.report import gpus
from ddptui.report.notes import damage, missing_repeats
from ddptui.report.primitives import grid, tables
from ddptui.report.primitives.meaning import how_long, why
from ddptui.report.primitives.plot import draw
from ddptui.report.ranks import describe_nccl
from ddptui.report.sentences import failure, what_became
from ddptui.text.drawing import Line
from ddptui.text.tables import Table
from ddptui.text.words import sentence

CADENCES: dict[Cadence, str] = {
    "back_to_back": "calls follow each other at once, as nccl-tests streams them",
    "barrier": "each call follows a barrier, whose time is not counted",
    "pipelined": "several calls are begun, then waited for; a call's time is theirs divided by their number",
}
PLOT_HEIGHT = 16  # lines
PLOTTED = ("isend_irecv", "broadcast", "all_reduce", "all_gather")  # where nothing is to be compared
OVERTAKING = (
    f"measured: where the lines through the medians cross, if one is faster by more than {CLEAR:.0%} at a smaller size,"
    " and the other at a larger one, both with p90 and minimum near the median. fitted: where the bent lines cross, if"
    " they differ by more than their own error. textbook: where the formulas cross"
)
UNEVEN = (
    f"{tables.MARK} its calls differ much among each other (CV above {MOST_CV:.0%}, p90 above {MOST_P90:g}"
    f" medians, or the median above {MOST_MEDIAN:g} times the least): "
)
TOO_MUCH_WORK = "there is other work on the machine, or more ranks than cores: a rank waits until it is its turn"
TICK = (
    "some calls wait for the scheduler's tick (4 ms at 250 Hz), others do not: sched_batch = true (SCHED_BATCH), or"
    " ranks pinned to cores of their own, avoid that"
)
HOW_MODELS_ARE_MADE = (
    "α a message, β a byte sent, γ a byte added (held, as local_sum has it): least squares of relative residuals",
    "line off, bent off: the largest residual of the straight line, and of the one that bends; left out: the largest at"
    " a size that was left out of the fit",
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
            yield from _of_trial(combined(result.primitives), trials[result.name], len(result.primitives))
    timed = [key_of(cell) for result in results.trials for repeat in result.primitives for cell in repeat.cells]
    if timed:
        books = dict.fromkeys(f"formulas: {tables.theory_of(key).source}" for key in timed)
        yield Notes([*HOW_MODELS_ARE_MADE, *books])
    if notes := failures(results):
        yield Notes(notes)


def failures(results: Results) -> list[str]:
    """A line for each damaged journal, and for each trial that lacks figures, with the end of its log."""
    lines = damage(results.unread or ())
    for trial in results.trials:
        if trial.error:
            lines.append(failure(trial))
        elif trial.status != "ok":
            lines.append(f"{trial.name} {what_became(trial)}")
        lines += [f"{trial.name}: {line}" for line in missing_repeats(trial, results)]
    if results.status == "interrupted":
        lines.append("interrupted: what is shown is what was finished")
    return lines


def _of_trial(result: PrimitivesResult, trial: Trial, repeats: int) -> Iterator[Block]:
    yield Heading(f"{trial.name}: {result.ranks} ranks, {result.backend}", 3)
    if result.nccl:
        yield Notes([describe_nccl(result.nccl)])
    for view in result.views:
        yield Heading(grid.heading(view), 4)
        yield Drawing(partial(grid.grid, view))
    if result.views:
        yield Notes([grid.LEGEND])
    if result.cells:
        yield from _measured(result, trial, repeats)


def _measured(result: PrimitivesResult, trial: Trial, repeats: int) -> Iterator[Block]:
    fits = fit_all(result)
    source = network_of(fits, result.cadence)
    models = {fit.key: fit for fit in fits}
    launches = f", and of {repeats} launches" if repeats > 1 else ""
    yield Notes(
        [
            f"cadence: {CADENCES[result.cadence]}; warm-up left out; every element checked (#wrong)",
            f"times are means over ranks, then over calls{launches}; 1 KB is 1024 bytes; algbw, busbw in GB/s of 1e9"
            " bytes",
        ]
    )
    for key, cells in by_operation(result.cells).items():
        yield Heading(tables.heading(key, result.cadence), 4)
        yield tables.of_cells(cells, models.get(key), source)
        if refusals := dict.fromkeys(f"not done: {cell.error.splitlines()[0]}" for cell in cells if cell.error):
            yield Notes([*refusals])
    if any(is_uneven(cell) for cell in result.cells):
        yield Notes([UNEVEN + (TOO_MUCH_WORK if trial.sched_batch else TICK)])
    yield Heading(f"Models{tables.unless_usual(result.cadence)}", 4)
    yield tables.of_models(fits, source)
    yield Notes([_textbook_from(fits, source[1] if source else None, result.cadence)])
    yield from _compared(result, fits)
    if sentences := [*filter(None, [how_long(steady_times(result), result.ranks), why(fits, result.cadence)])]:
        yield Heading("What it means", 4)
        yield Notes([*map(sentence, sentences)])


def _compared(result: PrimitivesResult, fits: Sequence[Fit]) -> Iterator[Block]:
    """A plot, and from which size on one way to average is faster than another."""
    ways = rivals(fit.key for fit in fits)
    chosen = ways if len(ways) > 1 else [fit.key for fit in fits if fit.key.operation in PLOTTED]
    if any(len(fit.residuals) > 1 for fit in fits if fit.key in chosen):  # of one size there is no line
        yield Plot(result, chosen)
    if len(ways) > 1:
        yield Heading("From which size on another is faster", 4)
        if overtaking := overtakings(result, fits):
            yield tables.of_overtakings(overtaking)
            yield Notes([OVERTAKING])
        else:
            yield Notes([f"none by more than {CLEAR:.0%}: neither as measured, nor as fitted, nor by the textbook"])


def _textbook_from(fits: Sequence[Fit], source: PrimitiveKey | None, cadence: Cadence) -> str:
    """Which measurements the textbook's figures are computed from."""
    if cadence == "pipelined":
        return "textbook: none, since its formulas are of one call by itself; α is what one more call in flight costs"
    if source is None:
        return "textbook: unknown, since neither isend/irecv nor send/recv tells α and β here"
    added = any(fit.key.operation == "local_sum" and fit.gamma is not None for fit in fits)
    gamma = "γ of local_sum" if added else "no γ, since local_sum was not measured"
    return f"textbook: p ranks, n bytes; α and β of {source}, {gamma}"
