"""Renders a run, two runs as one, several as a document, or a projection as one HTML file, which needs no other
files."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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
MACHINE = "The machine and the software"
GRID_WIDTH = 100  # columns of text in a grid of buffers
COMMANDS = (
    "Each command starts the ranks of a trial without the console, from a checkout of ddptui. `ddptui presets "
    "NAME_OR_FILE` prints the commands with their environment variables. For trials that the table marks as `warm`, "
    "ddptui did not use the command, but forked the ranks from a process that had imported torch."
)
TERMS = {
    "waiting": "a rank stood idle in a collective because a rank that it needed had not arrived",
    "transfer": "a rank stood idle in a collective although all ranks that it needed had arrived: the network, or the "
    "collective's own work",
    "own work": "everything else that a rank does in a step, without injected delays",
}

View = tuple[str, object]  # the kind of a block, and what it shows: `blocks` in parts.html draws each kind


class Section(NamedTuple):
    """A section of a page. finding: what the contents say beside its title."""

    id: str
    title: str
    blocks: Sequence[View]
    look: str = ""
    finding: str = ""


class Details(NamedTuple):
    """Blocks that can be folded."""

    summary: str
    blocks: Sequence[View]
    is_open: bool = False


class Panel(NamedTuple):
    """What the page shows of one trial at a time. prints: whether it is printed."""

    name: str
    headline: str
    blocks: Sequence[View]
    is_chosen: bool
    prints: bool


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
    title, of_run = preset.localized_title, notes(results, preset)
    questions = [*pairs(lesson_blocks(asked(preset, results, run.answers(preset)), level=2), title)]
    commands = {trial.name: shell_line(trial.command) or what_became(trial) for trial in results.trials}
    reading: list[View] = []
    if preset.kind == "primitives":
        found = [Section("primitives", "What was measured", [*pairs(primitive_blocks(results, preset), title)])]
    else:
        columns = leading(columns_of(rows_of(results, preset), preset.columns), preset.columns)
        table = trials_view(results, columns, CONFIGURED)
        meanings = {column.header: column.about for column in table.columns if column.about} | TERMS
        reading = [("notes", _texts(of_run, "reading")), ("table", _named(meanings))]
        panels = [_panel(run, trial, results) for trial in results.trials]
        found = [
            Section("table", "The trials", [("table", table)]),
            Section("time", "Where the time went", [("charts", [*times(results), *differences(results)])]),
            Section("steps", "Who waits for whom", [("panels", panels)]),
            Section("loss", "Loss", [("charts", charts)] if (charts := losses(run, results)) else []),
            Section("notes", "In words", _in_words(by_title(of_run))),
        ]
    sections = [
        *found,
        Section("questions", "Questions", questions[1:]),  # without their heading
        Section("preset", f"Preset {preset.name}", _configured(preset, results)),
        Section("commands", "Commands", [("soft", COMMANDS), ("table", _named(commands, "facts commands"))]),
        Section("environment", "Environment", [("table", TableView(MACHINE, environment(results), look="facts"))]),
        Section("reading", "How to read it", reading),
    ]
    return _rendered(title, kicker(results), answer(results), sections)


def _rendered(title: str, kicker: str, answer: Sequence[str], sections: Sequence[Section], **parts: object) -> str:
    """Renders a page of the sections that have content; if any says what was found, with a list of contents."""
    shown = [section for section in sections if section.blocks]
    parts |= {"title": title, "kicker": kicker, "answer": answer, "sections": shown}
    return rendered("page.html", **parts, has_contents=sum(bool(section.finding) for section in shown) > 1)


def kicker(results: Results) -> str:
    """The line above a page's title: the run, its start, status and extent."""
    started = str(results.environment.get("started", ""))[:16].replace("T", " ")
    repeats = f", {count(results.repeats, 'repeat')}{' each' * (len(results.trials) > 1)}" if results.repeats else ""
    return " · ".join(filter(None, [f"Run {results.run}", started, f"{results.status}: {extent(results)}{repeats}"]))


def pairs(blocks: Iterable[Block], heading: str) -> Iterator[View]:
    """The same blocks as in text and Markdown. heading: above the first block."""
    for block in blocks:
        match block:
            case Heading(words, level):
                heading = words
                yield "heading", (words, level)
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


def _named(words: Mapping[str, str], look: str = "facts") -> TableView:
    """A table of names, each with its words."""
    names, about = (Filled(header, [*cells], left=True) for header, cells in (("name", words), ("", words.values())))
    return TableView("Names, and what they stand for", [names, about], look=look)


def _configured(preset: Preset, results: Results) -> list[View]:
    fields = facts(preset)
    blocks: list[View] = [
        ("prose", preset.localized_about),
        ("table", table_view("The trials as they are configured", fields, once=[field.key for field in fields[1:]])),
    ]
    if not results.of_two_runs:  # no preset has the trials of both
        blocks.append(("details", Details("The whole preset, as TOML", [("code", as_toml(preset))])))
    return blocks


def _panel(run: Run, trial: TrialResult, results: Results) -> Panel:
    """The charts of a trial, the places in the code where its ranks worked, and the figures of each rank: both of its
    last repeat, with the console's columns."""
    places, late, read = places_of(trial, results, source_line)
    panes = of_trial(run, trial)
    blocks: list[View] = [("charts", [*chain(*panes.values())])]
    if not panes["timeline"]:
        blocks.append(("soft", NO_STEPS))
    if places:
        where = f"Where in the code the ranks of {trial.name} worked, in ms a step"
        table = table_view(where, place_columns(places[:MOST_PLACES], late, read))
        blocks.append(("details", Details("Where in the code", [("table", table)], is_open=True)))
    if trial.repeats and (ranks := trial.repeats[-1].ranks[:MOST_RANKS]):
        table = table_view(f"Ranks of {trial.name}, in its last repeat", fill(RANK_COLUMNS, ranks))
        blocks.append(("details", Details("Figures of each rank", [("table", table)])))
    headline = "; ".join(filter(None, [in_short(trial), ROUGH if is_marked(trial) else ""]))
    is_chosen = trial.name == shown_first(results)
    return Panel(trial.name, headline, blocks, is_chosen, prints=is_chosen or results.base_of(trial) is trial)


def _in_words(found: Mapping[str, Sequence[str]]) -> list[View]:
    """The notes of each title below it."""
    return [view for title, lines in found.items() if lines for view in (("heading", (title, 3)), ("notes", lines))]


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
    introduced: set[str] = set()
    for place, chapter in enumerate(chapters):
        is_open = not any(question.answer.strip() for question in chapter.questions)
        if is_open and chapter.preset.name in answered | introduced:
            chapter = chapter._replace(questions=())
        chapters[place] = chapter._replace(about=chapter.about * (chapter.preset.name not in introduced))
        introduced.add(chapter.preset.name)
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
    machines = TableView(MACHINE, environments(chapters), look="facts")
    code = [
        view
        for source in sources(chapters)
        for view in (("heading", (f"{source.name}{f' ({source.runs})' * bool(source.runs)}", 3)), ("code", source.text))
    ]
    sections = [
        *(_section(number, *each) for number, each in enumerate(zip(runs, chapters, strict=True), start=1)),
        Section("environment", "Environment", [("table", machines)], "chapter"),
        Section("code", "Own code", code),
    ]
    return _rendered(title, " · ".join(filter(None, [author, count(len(runs), "run")])), (), sections)


def _section(number: int, run: Run, chapter: Chapter) -> Section:
    """A run: what it measured, the charts of its page, and its questions. Those of a trial are of the one that the
    answer is about."""
    results, title, said = chapter.results, chapter.preset.localized_title, answer(chapter.results)
    blocks: list[View] = [("soft", chapter.kicker), ("prose", chapter.about), ("answer", said)]
    if chapter.preset.kind == "primitives":
        blocks += pairs(shown(chapter), title)
    else:
        table, reading = shown(chapter)
        assert isinstance(table, Table)
        blocks += [("table", trials_view(results, table.columns)), *pairs([reading], "")]
        chosen = next(trial for trial in results.trials if trial.name == shown_first(results))
        late = in_short(chosen)
        charts: dict[str, list[Chart]] = {
            "Where the time went": [*times(results), *differences(results)],
            f"Who waits for whom in {chosen.name}{': ' * bool(late)}{late}": [*chain(*of_trial(run, chosen).values())],
            "Loss": losses(run, results),
        }
        for heading, drawn in charts.items():
            if drawn:
                blocks += (("heading", (heading, 3)), ("charts", drawn))
    blocks += pairs(lesson_blocks(chapter.questions, f"{number}."), "")
    blocks += _in_words(chapter.notes)
    return Section(f"run-{number}", f"{number}. {title}", blocks, "chapter", finding=next(iter(said), ""))


def projection_page(projection: Projection) -> str:
    """Renders a projection as HTML."""
    of_strategies = {name: [*same] for name, same in groupby(projection.points, key=lambda point: point.strategy)}
    sections = [
        Section(
            f"strategy-{number}",
            name,
            [("charts", _curve(name, points)), ("table", table_view(f"{name} by ranks", in_full(points).columns))],
        )
        for number, (name, points) in enumerate(of_strategies.items(), start=1)
    ]
    how: list[View] = [("soft", "Lines show predicted step times; circles show measured ones.")]
    sections.append(Section("reading", "How to read it, and assumptions", [*how, ("notes", projection.notes)]))
    network = f"Projection of run {projection.run}; network: {projection.network.source}"
    return _rendered(title(projection), network, [*map(sentence, projection.said)], sections, lang="en")


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
