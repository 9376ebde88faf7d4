"""What there is to say of a run in words: of the chosen trial, what was published, then of the others."""

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from ddptui.preset import Preset
from ddptui.published import published
from ddptui.report import notes
from ddptui.results import Results


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
        said = [note for note in notes(results, preset) if not note.startswith("published: ")]
        own = [note for note in said if note.startswith((f"{chosen}: ", f"{chosen} failed: "))]
        others = [note for note in said if note not in own]
        paragraphs = [*map(Content, own or [f"{chosen}: nothing to say of it"])] if chosen else []
        paragraphs += _published(published(results, preset))
        paragraphs += [Content.styled(note, "dim") for note in others]
        self.query_one(Static).update(Content("\n\n").join(paragraphs))
        self.scroll_home(animate=False)


def _published(lines: Sequence[str]) -> list[Content]:
    if not lines:
        return []
    return [Content("\n").join([Content.styled("Published", "bold"), *map(Content, lines)])]
