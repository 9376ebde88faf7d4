"""Runs made by hand for pages, and what an HTML parser finds in one."""

from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path

import msgspec

from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.page.render import Chart, Shape
from ddptui.store.runs import Run
from ddptui.wire.messages import Step
from ddptui.wire.records import Message
from tests.support.builders import results_for, two_trials
from tests.support.launches import launch_of
from tests.support.traces import delayed, trace, works_of


class Told(Run):
    """A run whose trials all have the same journal."""

    def __init__(self, journal: Sequence[Message]) -> None:
        super().__init__(Path("told"))
        self._journal = journal

    def messages(self, trial: str, number: int, unread: list[str] | None = None) -> Iterator[Message]:
        return iter(self._journal)


def late_steps(ranks: int = 2, steps: int = 30) -> dict[int, list[Step]]:
    """Each rank's steps; the last rank is late by 5 ms before each aggregation."""
    works, _ = delayed(works_of(1, ranks=ranks, steps=steps), ranks - 1, "aggregate", lambda _: 5)
    told = trace(works).items()
    return {rank: [msgspec.structs.replace(step, loss=1 / (1 + step.step)) for step in own] for rank, own in told}


def a_run(**fields: object) -> tuple[Run, Preset, Results]:
    """Two trials: the baseline `a`, and `b`, in which the second rank is late."""
    preset = two_trials(repeats=1, **fields)
    works = works_of(2, ranks=2, steps=30)
    quick, late = launch_of(trace(works)), launch_of(late_steps(), "b")
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
