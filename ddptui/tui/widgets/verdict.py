"""The findings of a run in words: the chosen trial, the others, published figures, how to read them."""

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.report.references import published
from ddptui.report.trial_notes import in_words
from ddptui.tui.widgets.keys import SCROLL_KEYS


class Verdict(VerticalScroll):
    """Shows the findings of a run, those on the chosen trial first."""

    BINDINGS: ClassVar[list[BindingType]] = [*SCROLL_KEYS]

    def compose(self) -> ComposeResult:
        yield Static(markup=False)

    def show(self, results: Results, preset: Preset, chosen: str | None) -> None:
        """Show the findings. `chosen`: the name of the trial under the cursor."""
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
