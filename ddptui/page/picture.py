"""Renders one pane of a run as an SVG file for a paper or a README: the question, the finding, and the charts."""

from collections.abc import Sequence

from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.findings.questions import why_none
from ddptui.page.charts import Chart
from ddptui.page.pages import kicker
from ddptui.page.panes import differences, losses, matrix, of_trial, times, times_of
from ddptui.page.render import rendered
from ddptui.report.bars import ONLY_BASE
from ddptui.report.blocks import Plot
from ddptui.report.notes import answer, in_short, shown_first
from ddptui.report.primitive_report import primitive_blocks
from ddptui.report.rows import ROUGH, mark_of
from ddptui.store.runs import Run

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
    is_rough = any(mark_of(each, results) for each in shown)
    return rendered(
        "picture.svg",
        title=preset.localized_title,
        finding=finding,
        charts=charts,
        caveat=ROUGH if is_rough else "",
        source=f"{kicker(results)} · ddptui",
    )
