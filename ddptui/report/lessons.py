"""The questions of a lesson beside the cells that answer them, and the student's answers. Pure."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.report.blocks import Block, Heading, Quote
from ddptui.report.columns import columns_of
from ddptui.report.rows import rows_of
from ddptui.text.tables import Filled, Table, telling

UNANSWERED = "Not answered yet."


class Asked(NamedTuple):
    """A question, what the run shows of it, and the answer; empty if there is none yet."""

    text: str
    evidence: Sequence[Filled]  # the trials' names and their cells; empty if the question names no columns
    answer: str


def asked(preset: Preset, results: Results, answers: Sequence[str]) -> list[Asked]:
    """The preset's questions, in order. answers: one for each, as `Run.answers` returns them; if there are none, the
    questions are not shown."""
    if not answers:
        return []
    rows = rows_of(results, preset) if preset.kind != "primitives" else []
    told = []
    for question, answer in zip(preset.questions, answers, strict=True):
        about = [row for row in rows if not question.trials or row.result.name in question.trials]
        shown = ("trial", *question.columns) if question.columns else ()
        evidence = [column for column in columns_of(about) if column.key in shown] if about else []
        told.append(Asked(question.localized_text, evidence, answer))
    return told


def blocks(questions: Sequence[Asked], before: str = "", level: int = 3) -> Iterator[Block]:
    """The questions as blocks of a report. before: each question's number; level: of the heading above them."""
    if questions:
        yield Heading("Questions", level)
    for number, (text, evidence, answer) in enumerate(questions, start=1):
        yield Heading(f"{before}{number}. {text}", level + 1)
        if len(telling(evidence)) > 1:  # more than the names of trials
            yield Table(evidence)
        yield Quote(answer.strip() or UNANSWERED)
