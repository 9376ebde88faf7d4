"""Renders a run, two runs as one, several as a document, or a projection as one HTML file, which needs no other
files."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, groupby
from math import log2
from typing import NamedTuple

from ddptui.analysis.repeats import extent
from ddptui.analysis.results import Results, TrialResult
from ddptui.config.preset import Preset
from ddptui.host.source import source_line
from ddptui.page.panes import differences, losses, of_trial, times, times_of
from ddptui.page.render import Axis, Chart, CurveSeries, curves, rendered
from ddptui.projection import Point, Projection
from ddptui.projection.report import in_full, title
from ddptui.report import table
from ddptui.report.blocks import Block, Drawing, Heading, Notes, Plot, Quote
from ddptui.report.columns import columns_of, leading
from ddptui.report.document import Chapter, as_markdown, environments, shown, sources
from ddptui.report.notes import Note, NoteKind, answer, in_short, notes, shown_first
from ddptui.report.preset_columns import environment, facts
from ddptui.report.primitive_report import primitive_blocks
from ddptui.report.ranks import MOST_ROWS as MOST_PLACES
from ddptui.report.ranks import RANK_COLUMNS, place_columns
from ddptui.report.ranks import of_trial as places_of
from ddptui.report.rows import ROUGH, is_marked, rows_of, what_became
from ddptui.report.table import asked, lesson_blocks
from ddptui.store.overview import results_of
from ddptui.store.presets import as_toml
from ddptui.store.runs import Run
from ddptui.text.drawing import linear_ticks
from ddptui.text.sanitize import shell_line
from ddptui.text.tables import Filled, Table, fill, telling
from ddptui.text.words import count, sentence

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


def chapters_of(runs: Sequence[Run]) -> list[Chapter]:
    """Reads the runs from disk. Of several runs of one preset, the first says what it is about, and its questions stand
    where they are answered, or else in the first. Raises RunError."""
    chapters = [_chapter(run) for run in runs]
    answered = {each.preset.name for each in chapters if any(question.answer.strip() for question in each.questions)}
    told: set[str] = set()
    for place, chapter in enumerate(chapters):
        is_open = not any(question.answer.strip() for question in chapter.questions)
        if is_open and chapter.preset.name in answered | told:
            chapter = chapter._replace(questions=())
        chapters[place] = chapter._replace(about=chapter.about * (chapter.preset.name not in told))
        told.add(chapter.preset.name)
    return chapters


def _chapter(run: Run) -> Chapter:
    preset = run.preset()
    results = results_of(run, preset)
    of_run = {} if preset.kind == "primitives" else by_title(notes(results, preset))
    questions = asked(preset, results, run.answers(preset))
    return Chapter(kicker(results), preset, preset.localized_about, results, of_run, questions, run.code())


def document(title: str, author: str, runs: Sequence[Run], chapters: Sequence[Chapter], form: str) -> str:
    """The document in a form: html or markdown. chapters: one for each run. Raises RunError if a journal cannot be
    read."""
    if form == "markdown":
        return as_markdown(title, author, chapters)
    return rendered(
        "report.html",
        title=title,
        kicker=" · ".join(filter(None, [author, count(len(runs), "run")])),
        answer=(),
        chapters=[
            (chapter, answer(chapter.results), _blocks(run, chapter), _questions(number, chapter))
            for number, (run, chapter) in enumerate(zip(runs, chapters, strict=True), start=1)
        ],
        environment=TableView("The machine and the software of the runs", environments(chapters), look="facts"),
        sources=sources(chapters),
    )


def _questions(number: int, chapter: Chapter) -> list[tuple[str, object]]:
    return [*pairs(lesson_blocks(chapter.questions, f"{number}."), "", higher=0)]


def _blocks(run: Run, chapter: Chapter) -> Iterator[tuple[str, object]]:
    """What the run measured, and the charts of its page, as pairs of a kind and its value; those of a trial are of the
    one that the answer is about."""
    results, blocks = chapter.results, shown(chapter)
    if chapter.preset.kind == "primitives":
        yield from pairs(blocks, chapter.preset.localized_title, higher=0)
        return
    table, reading = blocks
    assert isinstance(table, Table)
    yield "table", trials_view(results, table.columns)
    yield from pairs([reading], "")
    chosen = next(trial for trial in results.trials if trial.name == shown_first(results))
    late = in_short(chosen)
    charts: dict[str, list[Chart]] = {
        "Where the time went": [*times(results), *differences(results)],
        f"Who waits for whom in {chosen.name}{': ' * bool(late)}{late}": [*chain(*of_trial(run, chosen).values())],
        "Loss": losses(run, results),
    }
    for heading, drawn in charts.items():
        if drawn:
            yield from (("heading", (heading, 3)), ("charts", drawn))


def projection_page(projection: Projection) -> str:
    """Renders a projection as HTML."""
    return rendered(
        "projection.html",
        title=title(projection),
        kicker=f"Projection of run {projection.run}; network: {projection.network.source}",
        answer=[*map(sentence, projection.said)],
        strategies=[
            (name, _curve(name, points := [*same]), table_view(f"{name} by ranks", in_full(points).columns))
            for name, same in groupby(projection.points, key=lambda point: point.strategy)
        ],
        reading=projection.notes,
    )


def _curve(name: str, points: list[Point]) -> list[Chart]:
    """The step time over ranks; no chart with a single number of ranks."""
    if len(points) < 2:
        return []
    projected = [(log2(point.ranks), point.step_ms) for point in points]
    measured = [(log2(point.ranks), point.measured_ms) for point in points if point.measured_ms]
    ranks = Axis("ranks", lambda *_: [(log2(point.ranks), str(point.ranks)) for point in points])
    return curves(
        "Step time over ranks", [CurveSeries(name, projected, marks=measured)], ranks, Axis("ms", linear_ticks)
    )
