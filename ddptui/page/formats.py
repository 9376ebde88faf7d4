"""A run in each form that is written to a file: tables, a trace, a page, and pictures of single panes."""

from collections.abc import Iterable
from functools import partial

from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.host.source import source_line
from ddptui.page.pages import page
from ddptui.page.picture import picture
from ddptui.report import exports, table
from ddptui.report.exports import trace
from ddptui.store.runs import Run, RunError


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
