"""Renders a run, two runs as one, or a run of primitives as one HTML file, which needs no other files."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from ddptui.analysis.repeats import extent
from ddptui.analysis.results import Results, TrialResult
from ddptui.config.preset import Preset
from ddptui.host.source import source_line
from ddptui.page.panes import differences, losses, of_trial, times, times_of
from ddptui.page.render import rendered
from ddptui.report import table
from ddptui.report.blocks import Block, Drawing, Heading, Notes, Plot, Quote
from ddptui.report.columns import columns_of, leading
from ddptui.report.notes import Note, NoteKind, answer, in_short, notes, shown_first
from ddptui.report.preset_columns import environment, facts
from ddptui.report.primitive_report import primitive_blocks
from ddptui.report.ranks import MOST_ROWS as MOST_PLACES
from ddptui.report.ranks import RANK_COLUMNS, place_columns
from ddptui.report.ranks import of_trial as places_of
from ddptui.report.rows import ROUGH, is_marked, rows_of, what_became
from ddptui.store.presets import as_toml
from ddptui.store.runs import Run
from ddptui.text.sanitize import shell_line
from ddptui.text.tables import Filled, Table, fill, telling
from ddptui.text.words import count

CONFIGURED = ("launch", "ranks", "strategy", "backend", "average", "mistake", "bottleneck", "fault")  # keys of columns
TITLES: dict[NoteKind, str] = {
    "difference": "What differs between the runs",
    "finding": "Findings",
    "caution": "Cautions",
    "published": "Published figures",
}
MOST_RANKS = 64  # rows of a table of ranks
NO_STEPS = "No steps to draw: the trial failed, recorded none, or the ranks' clocks could not be compared."
GRID_WIDTH = 100  # columns of text in a grid of buffers


class TableView(NamedTuple):
    """A table. shared: columns in which all rows have the same value; kinds: of each row failed, skipped, baseline, or
    empty; none: no row has one."""

    caption: str
    columns: Sequence[Filled]
    shared: Sequence[Filled] = ()
    kinds: Sequence[str] = ()
    look: str = ""


def table_view(
    caption: str, columns: Sequence[Filled], kinds: Sequence[str] = (), once: Collection[str] = ()
) -> TableView:
    """Builds a table; leaves out columns without any value, and those that repeat the first column.

    once: keys of columns that are shown once above the table if all rows have the same value."""
    first, *others = telling(columns)
    shown = [first, *(column for column in others if list(column.cells) != list(first.cells))]
    shared = [column for column in shown if column.key in once and len(set(column.cells)) == 1]
    return TableView(caption, [column for column in shown if column not in shared], shared, kinds)


def page(run: Run, preset: Preset, results: Results) -> str:
    """Renders a run as an HTML page. Raises RunError if a journal or the answers cannot be read."""
    fields, title = facts(preset), preset.localized_title
    is_training = preset.kind != "primitives"
    return rendered(
        "training.html" if is_training else "primitives.html",
        title=title,
        kicker=kicker(results),
        answer=answer(results),
        questions=[*pairs(table.lesson_blocks(table.asked(preset, results, run.answers(preset))), title)],
        about=preset.localized_about,
        preset=preset.name,
        toml="" if results.of_two_runs else as_toml(preset),  # no preset has the trials of both
        fields=table_view("The trials as they are configured", fields, once=[field.key for field in fields[1:]]),
        commands=[(trial.name, shell_line(trial.command) or what_became(trial)) for trial in results.trials],
        environment=TableView("The machine and the software of this run", environment(results), look="facts"),
        **(
            _of_training(run, preset, results)
            if is_training
            else {"blocks": pairs(primitive_blocks(results, preset), title)}
        ),
    )


def kicker(results: Results) -> str:
    """The line above a page's title: the run, its start, status and extent."""
    started = str(results.environment.get("started", ""))[:16].replace("T", " ")
    repeats = f", {count(results.repeats, 'repeat')}{' each' * (len(results.trials) > 1)}" if results.repeats else ""
    return " · ".join(filter(None, [f"Run {results.run}", started, f"{results.status}: {extent(results)}{repeats}"]))


# Primitives


def pairs(blocks: Iterable[Block], heading: str, higher: int = 1) -> Iterator[tuple[str, object]]:
    """The same blocks as in text and Markdown, as pairs of a kind and its value.

    heading: above the first block; higher: by how many levels headings are higher than in Markdown."""
    for block in blocks:
        match block:
            case Heading(words, level):
                heading = words
                yield "heading", (words, level - higher)
            case Notes(lines):
                yield "notes", [line for line in lines if line]
            case Quote(words):
                yield "quote", words
            case Drawing(draw):
                yield "grid", draw(GRID_WIDTH)
            case Plot():
                yield "charts", times_of(block)
            case Table(columns):
                yield "table", table_view(heading, columns)


# Trainings


def _of_training(run: Run, preset: Preset, results: Results) -> dict[str, object]:
    chosen, of_run = shown_first(results), notes(results, preset)
    columns = leading(columns_of(rows_of(results, preset), preset.columns), preset.columns)
    return {
        "table": trials_view(results, columns, CONFIGURED),
        "times": times(results),
        "differences": differences(results),
        "chosen": chosen,
        "panels": [_panel(run, trial, results, is_chosen=trial.name == chosen) for trial in results.trials],
        "loss": losses(run, results),
        "notes": by_title(of_run),
        "reading": _texts(of_run, "reading"),
    }


def _panel(run: Run, trial: TrialResult, results: Results, *, is_chosen: bool) -> dict[str, object]:
    """The charts of a trial, the places in the code where its ranks worked, and the figures of each rank: both of its
    last repeat, with the console's columns."""
    places, late, read = places_of(trial, results, source_line)
    panes = of_trial(run, trial)
    where = f"Where in the code the ranks of {trial.name} worked, in ms a step"
    ranks = trial.repeats[-1].ranks[:MOST_RANKS] if trial.repeats else []
    return {
        "name": trial.name,
        "prints": is_chosen or results.base_of(trial) is trial,
        "headline": "; ".join(filter(None, [in_short(trial), ROUGH if is_marked(trial) else ""])),
        "charts": [chart for of_pane in panes.values() for chart in of_pane],
        "where": table_view(where, place_columns(places[:MOST_PLACES], late, read)) if places else None,
        "ranks": table_view(f"Ranks of {trial.name}, in its last repeat", fill(RANK_COLUMNS, ranks)) if ranks else None,
        "why_empty": "" if panes["timeline"] else NO_STEPS,
    }


def trials_view(results: Results, columns: Sequence[Filled], once: Collection[str] = ()) -> TableView:
    """Builds the table that compares trials. once: as for `table_view`."""
    kinds = [
        trial.status if trial.status != "ok" else "baseline" * (results.base_of(trial) is trial)
        for trial in results.trials
    ]
    return table_view("The trials, one per row", columns, kinds, once)


def by_title(of_run: Sequence[Note]) -> dict[str, list[str]]:
    """The notes but those on how to read the table, by the title of their section."""
    return {title: _texts(of_run, kind) for kind, title in TITLES.items()}


def _texts(of_run: Sequence[Note], kind: NoteKind) -> list[str]:
    """The notes of one kind, without the kind's name at the start, since the section's title has it."""
    return [note.text.removeprefix(kind).lstrip(":, ") for note in of_run if note.kind == kind]
