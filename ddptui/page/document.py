"""Several runs as one document to hand in, as HTML or Markdown; see `ddptui.report.document`."""

from collections.abc import Iterator, Sequence
from itertools import chain

from ddptui.page.charts import Chart
from ddptui.page.pages import TableView, by_title, kicker, pairs, trials_view
from ddptui.page.panes import differences, losses, of_trial, times
from ddptui.page.render import rendered
from ddptui.report import table as lessons
from ddptui.report.document import Chapter, as_markdown, environments, shown, sources
from ddptui.report.notes import answer, in_short, notes, shown_first
from ddptui.store.overview import results_of
from ddptui.store.runs import Run
from ddptui.text.tables import Table
from ddptui.text.words import count


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
    questions = lessons.asked(preset, results, run.answers(preset))
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
    return [*pairs(lessons.lesson_blocks(chapter.questions, f"{number}."), "", higher=0)]


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
