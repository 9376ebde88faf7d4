"""Runs made by hand for pages, and what an HTML parser finds in one."""

from collections.abc import Iterable, Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path

import msgspec

from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.page.render import Chart, Shape
from ddptui.store.runs import Run
from ddptui.wire.messages import Step
from ddptui.wire.records import Message
from tests.support.builders import done, ended, hello, launched, ready, results_for, two_trials
from tests.support.traces import delayed, trace, works_of


class Told(Run):
    """A run whose trials all have the same journal."""

    def __init__(self, journal: Sequence[Message]) -> None:
        super().__init__(Path("told"))
        self._journal = journal

    def messages(self, trial: str, number: int, unread: list[str] | None = None) -> Iterator[Message]:
        return iter(self._journal)


def journal_of(steps: Iterable[Sequence[Step]], trial: str = "a", host: str = "here") -> list[Message]:
    """A repeat whose ranks have these steps."""
    of_ranks = list(steps)
    numbers = range(len(of_ranks))
    size = len(of_ranks)
    messages: list[Message] = [launched(trial)]
    messages += [hello(rank, world_size=size, host=host) for rank in numbers]
    messages += [ready(rank) for rank in numbers]
    messages += [step for of_rank in of_ranks for step in of_rank]
    messages += [done(rank) for rank in numbers]
    return [*messages, ended()]


def late_steps(ranks: int = 2, steps: int = 30) -> list[list[Step]]:
    """Each rank's steps; the last rank is late by 5 ms before each aggregation."""
    works, _ = delayed(works_of(1, ranks=ranks, steps=steps), ranks - 1, "aggregate", lambda _: 5)
    told = trace(works)
    return [[msgspec.structs.replace(step, loss=1 / (1 + step.step)) for step in told[rank]] for rank in told]


def a_run(**fields: object) -> tuple[Run, Preset, Results]:
    """Two trials: the baseline `a`, and `b`, in which the second rank is late."""
    preset = two_trials(repeats=1, **fields)
    works = works_of(2, ranks=2, steps=30)
    quick, late = journal_of(trace(works).values()), journal_of(late_steps(), "b")
    return Told(late), preset, results_for(preset, quick, late)


class Found(HTMLParser):
    """The elements of a page with the names of their attributes, in order; attributes with values; and all text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, ...]] = []
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, *(name for name, _ in attributes)))
        self.attributes += [(name, value or "") for name, value in attributes]

    def handle_data(self, data: str) -> None:
        self.text += data


def shapes(chart: Chart, tag: str, look: str = "") -> list[Shape]:
    """The shapes of a chart with this tag, and with this CSS class if one is given."""
    of_tag = [shape for shape in chart.shapes if shape.tag == tag]
    return [shape for shape in of_tag if not look or look in str(shape.attributes["class"]).split()]


def texts(chart: Chart) -> list[str]:
    return [shape.text for shape in shapes(chart, "text")]
