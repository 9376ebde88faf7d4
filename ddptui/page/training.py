"""The page of a training run: the answer, the table, where the time went, waits, losses, and how it was made."""

from collections.abc import Sequence

from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.findings.questions import why_none
from ddptui.page import bars
from ddptui.page.charts import Axis, Chart, Series, chart, frame_of
from ddptui.page.made import how_it_was_made, kicker
from ddptui.page.recorded import recorded
from ddptui.page.render import rendered
from ddptui.page.tables import TableView, table_view
from ddptui.page.trials import panel
from ddptui.report.columns import columns_of
from ddptui.report.notes import Note, NoteKind, answer, in_short, notes, shown_first
from ddptui.report.rows import ROUGH, is_marked, loss_of, rows_of
from ddptui.store.runs import Run
from ddptui.text.drawing import linear_ticks

CONFIGURED = ("launch", "ranks", "strategy", "backend", "average", "mistake", "bottleneck", "fault")  # keys of columns
MOST_STEPS, MOST_LOSSES = 8, 5  # ticks
TITLES: dict[NoteKind, str] = {
    "difference": "What differs between the runs",
    "finding": "Findings",
    "caution": "Cautions",
    "published": "Published figures",
}


def training_page(run: Run, preset: Preset, results: Results) -> str:
    """Renders a training run as HTML. Raises RunError if a journal cannot be read."""
    said = answer(results)
    chosen = shown_first(results)
    of_run = notes(results, preset)
    is_base = {trial.name: results.base_of(trial) is trial for trial in results.trials}
    panels, curves = [], []
    for trial in results.trials:
        steps = recorded(run, trial)
        headline = "; ".join(filter(None, [in_short(trial), ROUGH if is_marked(trial) else ""]))
        panels.append(panel(trial, results, steps, headline, prints=trial.name == chosen or is_base[trial.name]))
        if steps.loss:
            at_end = loss_of(trial)
            curves.append(Series(trial.name, steps.loss, "not finite" if at_end is None else f"{at_end:.3f}"))
    return rendered(
        "training.html",
        title=preset.title,
        kicker=kicker(results),
        answer=said,
        table=_table(results, preset),
        times=bars.train_times(results),
        differences=bars.differences(results),
        no_difference=why_none(results) if len(results.trials) > 1 else "",
        baseline="run A" if results.of_two_runs else results.baseline,
        chosen=chosen,
        panels=panels,
        loss=_loss(curves),
        notes={title: _texts(of_run, kind) for kind, title in TITLES.items()},
        reading=_texts(of_run, "reading"),
        **how_it_was_made(preset, results),
    )


def _texts(of_run: Sequence[Note], kind: NoteKind) -> list[str]:
    """The notes of one kind, without the kind's name at the start, since the section's title has it."""
    return [note.text.removeprefix(kind).lstrip(":, ") for note in of_run if note.kind == kind]


def _table(results: Results, preset: Preset) -> TableView:
    kinds = {
        row: trial.status if trial.status != "ok" else "baseline"
        for row, trial in enumerate(results.trials)
        if trial.status != "ok" or results.base_of(trial) is trial
    }
    leading = ("trial", *preset.columns, "train", "ratio")  # the other columns follow in their usual order
    first = {key: place for place, key in enumerate(leading)}
    columns = sorted(
        columns_of(rows_of(results, preset), preset.columns), key=lambda column: first.get(column.key, len(first))
    )
    return table_view("The trials, one per row", columns, kinds, CONFIGURED)


def _loss(curves: list[Series]) -> Chart | None:
    """The chart of all trials' losses; None if no loss is known."""
    within = frame_of(curves)
    if within is None:
        return None
    x = Axis("step", linear_ticks(within.left, within.right, MOST_STEPS))
    y = Axis("loss", linear_ticks(within.low, within.high, MOST_LOSSES))
    about = "; ".join(f"{curve.name}: {curve.said}" for curve in curves)
    return chart("Loss over steps; the numbers are means over the last tenth of the steps", about, curves, within, x, y)
