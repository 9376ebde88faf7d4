"""What there is to say of a run in words: of the chosen trial, of the others, what was published, how to read it."""

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.report.references import published
from ddptui.report.trial_notes import in_words


class Verdict(VerticalScroll):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "scroll_down", "Scroll down", show=False),
        Binding("k", "scroll_up", "Scroll up", show=False),
        Binding("g", "scroll_home", "To the start", show=False),
        Binding("G", "scroll_end", "To the end", show=False),
    ]

    def compose(self) -> ComposeResult:
        yield Static(markup=False)

    def show(self, results: Results, preset: Preset, chosen: str | None) -> None:
        notes = in_words(results, preset, chosen)
        paragraphs = [*map(Content, notes.chosen), *_dim(notes.others)]
        paragraphs += [*_published(published(results, preset)), *_dim(notes.reading)]
        self.query_one(Static).update(Content("\n\n").join(paragraphs))
        self.scroll_home(animate=False)


def _dim(notes: Sequence[str]) -> list[Content]:
    return [Content.styled(note, "dim") for note in notes]


def _published(lines: Sequence[str]) -> list[Content]:
    if not lines:
        return []
    return [Content("\n").join([Content.styled("Published", "bold"), *map(Content, lines)])]
