"""A run in each form that is written to a file: tables, a trace, a page, and pictures of single panes."""

from collections.abc import Iterable, Sequence
from functools import partial

from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.findings.questions import why_none
from ddptui.host.source import source_line
from ddptui.page.pages import kicker, page
from ddptui.page.panes import differences, losses, matrix, of_trial, times, times_of
from ddptui.page.render import Chart, rendered
from ddptui.report import exports, table
from ddptui.report.bars import ONLY_BASE
from ddptui.report.blocks import Plot
from ddptui.report.exports import trace
from ddptui.report.notes import answer, in_short, shown_first
from ddptui.report.primitive_report import primitive_blocks
from ddptui.report.rows import ROUGH, mark_of
from ddptui.store.runs import Run, RunError

MOST_TRIALS = 40  # in the picture of times
OF_PRIMITIVES = "a run of primitives has one of its times, if it timed several sizes; --format html has all of it"
NO_STEPS = "no steps were recorded, the trial failed, ranks' clocks cannot be compared, or no rank waited for another"


class PictureError(ValueError):
    """Raised if there is nothing to draw; the text is one line."""


def picture(run: Run, preset: Preset, results: Results, pane: str = "times", trial: str = "") -> str:
    """Returns a pane as SVG, 900 units wide: times, differences, curves or, of a trial, matrix, arrivals or timeline.

    trial: its name; else the trial that the answer is about. Raises PictureError, and RunError if a journal cannot be
    read."""
    charts: Sequence[Chart] = []
    shown, finding, why = results.trials, next(iter(answer(results)), ""), NO_STEPS
    if preset.kind == "primitives":
        plots = [block for block in primitive_blocks(results, preset) if isinstance(block, Plot) and pane == "times"]
        charts, why = [chart for plot in plots for chart in times_of(plot)], OF_PRIMITIVES
    elif pane == "times":
        charts = times(results, MOST_TRIALS)
    elif pane == "differences":
        charts, why = differences(results), why_none(results) or ONLY_BASE
    elif pane == "curves":
        charts, why = losses(run, results), "no loss was recorded"
    else:
        name = trial or shown_first(results)
        shown = [each for each in results.trials if each.name == name]
        if not shown:
            names = ", ".join(each.name for each in results.trials)
            raise PictureError(f"{results.run}: no trial '{name}'; its trials: {names}")
        finding = ": ".join(filter(None, [name, in_short(shown[0])]))
        # The matrix needs no journal, which may be long.
        charts = matrix(shown[0]) if pane == "matrix" else of_trial(run, shown[0])[pane]
    if not charts:
        raise PictureError(f"{results.run}: no picture of {pane}: {why}")
    return rendered(
        "picture.svg",
        title=preset.localized_title,
        finding=finding,
        charts=charts,
        caveat=ROUGH * any(mark_of(each, results) for each in shown),
        source=f"{kicker(results)} · ddptui",
    )


def pieces(run: Run, preset: Preset, results: Results, form: str, trial: str = "") -> Iterable[str]:
    """The text of a run in a form, in pieces.

    form: markdown, csv, steps, json, trace, html, svg, or a pane with .svg, such as matrix.svg; trial: the trial that a
    pane shows, if it is of one trial; else the one that the answer is about. Raises RunError if a file of the run
    cannot be read or the run has no steps, and PictureError if there is nothing to draw."""
    if form == "html":
        return [page(run, preset, results)]
    if form == "trace":
        return trace(run.repeats(preset))
    if form == "steps":
        if preset.kind == "primitives":
            raise RunError(f"{run.name}: ranks that run primitives make no steps; `--format csv` has their timings")
        return exports.steps_as_csv({repeat: partial(run.messages, *repeat) for repeat in run.repeats(preset)})
    if form.endswith("svg"):
        return [picture(run, preset, results, form.removesuffix("svg").removesuffix(".") or "times", trial)]
    answers = run.answers(preset) if form == "markdown" else ()
    return [table.FORMATS[form](results, preset, source_line, answers)]
