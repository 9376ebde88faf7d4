"""Several runs as one document to hand in: a chapter for each run; then the environment and the user's code."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.report import primitive_report as primitives
from ddptui.report.blocks import Block, Drawing, Notes, in_markdown, joined
from ddptui.report.columns import columns_of, leading
from ddptui.report.matrix import matrices, side_by_side
from ddptui.report.notes import answer, notes
from ddptui.report.preset_columns import environment
from ddptui.report.rows import rows_of
from ddptui.report.table import Asked, lesson_blocks
from ddptui.text import tables
from ddptui.text.tables import Filled, Table, fit, grouped, telling
from ddptui.text.words import in_a_row, listed, printable

MOST_COLUMNS = 5  # of a table
OF_ONE_RUN = ("preset", "started")  # entries of the environment that stand above the run's chapter


class Chapter(NamedTuple):
    """A run in a document."""

    kicker: str  # the run's name, start, status and extent
    preset: Preset
    about: str  # in the chosen language; empty: another chapter says it
    results: Results
    notes: Mapping[str, Sequence[str]]  # findings, cautions and published figures, by the title of their section
    questions: Sequence[Asked]
    code: Mapping[str, str]  # the texts of the user's own files, by name


class Source(NamedTuple):
    """A file of the user's own. runs: as in "runs 1 and 3"; empty if the document has one run."""

    name: str
    text: str
    runs: str


def narrow(columns: Sequence[Filled]) -> list[Filled]:
    """The columns that are worth most, in their order."""
    return fit(telling(columns), 0, MOST_COLUMNS)


def shown(chapter: Chapter) -> list[Block]:
    """What the run measured: the table of its trials, or the blocks of its primitives; then how to read it."""
    preset, results = chapter.preset, chapter.results
    if preset.kind == "primitives":
        blocks = primitives.primitive_blocks(results, preset)
        return [
            block._replace(columns=narrow(block.columns)) if isinstance(block, Table) else block for block in blocks
        ]
    columns = leading(columns_of(rows_of(results, preset), preset.columns), preset.columns)
    reading = [note.text for note in notes(results, preset) if note.kind == "reading"]
    return [Table(narrow(columns)), Notes(reading)]


def environments(chapters: Sequence[Chapter]) -> list[Filled]:
    """The columns: the entries of all environments, their values, and the runs that have them, if there are several."""
    found = grouped(
        (entry, number)
        for number, chapter in enumerate(chapters, start=1)
        for entry in zip(*(column.cells for column in environment(chapter.results)), strict=True)
        if entry[0] not in OF_ONE_RUN
    )
    names = [*dict.fromkeys(name for name, _ in found)]
    entries = sorted(found, key=lambda entry: names.index(entry[0]))
    who = ["all" if len(found[entry]) == len(chapters) else listed([*map(str, found[entry])]) for entry in entries]
    columns = {"name": [name for name, _ in entries], "value": [value for _, value in entries], "runs": who}
    return [Filled(header, cells, left=True) for header, cells in columns.items()][: 3 if len(chapters) > 1 else 2]


def sources(chapters: Sequence[Chapter]) -> list[Source]:
    """Each distinct file of the user's own, once, without the control characters that a page would spell out."""
    found = grouped(
        ((name, "\n".join(text.expandtabs(4).splitlines())), str(number))
        for number, chapter in enumerate(chapters, start=1)
        for name, text in chapter.code.items()
    )
    several = len(chapters) > 1
    return [
        Source(name, text, f"run{'s' * (len(runs) > 1)} {listed(runs)}" * several)
        for (name, text), runs in sorted(found.items(), key=lambda file: file[0][0])
    ]


def as_markdown(title: str, author: str, chapters: Sequence[Chapter]) -> str:
    """The document as Markdown."""
    parts = [[f"# {title}"], [author]]
    for number, chapter in enumerate(chapters, start=1):
        parts += _chapter(number, chapter)
    parts += [["## Environment"], tables.as_markdown(Table(environments(chapters)))]
    if code := sources(chapters):
        parts += [["## Own code"], *(part for source in code for part in _source(source))]
    return joined(parts)


def _chapter(number: int, chapter: Chapter) -> Iterator[list[str]]:
    preset, results = chapter.preset, chapter.results
    yield from (
        [f"## {number}. {preset.localized_title}"],
        [chapter.kicker],
        [chapter.about.strip()],
        [in_a_row(answer(results), ".")],
    )
    yield from map(in_markdown, shown(chapter))
    if preset.kind != "primitives" and (waited := matrices(results)):
        yield from (["### Who waited for whom"], in_markdown(Drawing(partial(side_by_side, waited))))
    yield from map(in_markdown, lesson_blocks(chapter.questions, f"{number}."))
    for title, lines in chapter.notes.items():
        if lines:
            yield from ([f"### {title}"], in_markdown(Notes(lines)))


def _source(source: Source) -> list[list[str]]:
    """A heading and the file's text, within a fence that is longer than any row of backticks in it."""
    fence = "`" * max(3, *(len(ticks) + 1 for ticks in re.findall("`+", source.text)), 3)
    runs = f" ({source.runs})" if source.runs else ""
    return [[f"### {printable(source.name)}{runs}"], [f"{fence}python", source.text, fence]]
