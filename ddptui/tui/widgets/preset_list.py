"""The presets in their groups, how long each would take, and a filter over them."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Input
from textual.widgets.option_list import Option

from ddptui.config.preset import Preset
from ddptui.store.presets import BrokenPreset
from ddptui.text.words import printable
from ddptui.tui.widgets.lists import Chooser, TwoEnds

TITLES_BEGIN = 34  # column


class PresetChooser(Chooser):
    """The list itself, without the filter."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "screen.run", "Run"),
        Binding("right,l", "screen.read", "Read what it is about", show=False),
    ]


class PresetList(Vertical):
    """Lists the presets. The user filters them by the words of their names, titles and groups."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "clear_filter", "Show all presets", show=False)]
    DEFAULT_CSS = """
    PresetList { min-height: 4; }
    PresetList Input { display: none; }
    PresetList PresetChooser { height: 1fr; }
    PresetList PresetChooser > .option-list--option-disabled { color: $text-accent; }
    """

    @dataclass
    class Chosen(Message):
        """The cursor is on a preset."""

        name: str

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id, classes="pane")
        self.border_title = "Presets"
        self._presets: Sequence[Preset] = ()
        self._broken: Sequence[BrokenPreset] = ()
        self._notes: Mapping[str, str] = {}
        self._changed: Collection[str] = ()

    def compose(self) -> ComposeResult:
        yield Input(placeholder="name, title or group", compact=True)
        yield PresetChooser(id="presets")

    @property
    def chosen(self) -> str | None:
        """Return the name of the preset under the cursor."""
        return self.query_one(PresetChooser).chosen

    def fill(self, presets: Sequence[Preset], broken: Sequence[BrokenPreset]) -> None:
        """List these presets, and the files that cannot be read."""
        self._presets, self._broken = presets, broken
        self._list()

    def show_notes(self, notes: Mapping[str, str], changed: Collection[str]) -> None:
        """Show a note beside each preset, by name, and mark those with unsaved changes. The cursor stays."""
        if (notes, changed) != (self._notes, self._changed):
            self._notes, self._changed = dict(notes), list(changed)
            self._list()

    def choose(self, name: str) -> None:
        """Put the cursor on a preset, and show all presets."""
        self.action_clear_filter()
        chooser = self.query_one(PresetChooser)
        chooser.highlighted = chooser.get_option_index(name)

    def filter(self) -> None:
        """Open the filter."""
        filter_input = self.query_one(Input)
        filter_input.display = True  # a class would act later, and the next keys would not go there
        self.screen.set_focus(filter_input)

    def action_clear_filter(self) -> None:
        filter_input = self.query_one(Input)
        filter_input.value, filter_input.display = "", False
        self._list()
        self.query_one(PresetChooser).focus()

    @on(Input.Changed)
    def _narrow_down(self, event: Input.Changed) -> None:
        event.stop()
        self._list()

    @on(Input.Submitted)
    def _go_to_list(self, event: Input.Submitted) -> None:
        event.stop()
        self.query_one(PresetChooser).focus()

    @on(PresetChooser.OptionHighlighted)
    def _post_chosen(self, event: PresetChooser.OptionHighlighted) -> None:
        event.stop()
        if event.option_id is not None:
            self.post_message(self.Chosen(event.option_id))

    def _list(self) -> None:
        """Fill the list with what the filter lets through."""
        typed = self.query_one(Input).value
        options = [*self._options(typed.lower().split())]
        self.query_one(PresetChooser).refill(options)
        shown, known = sum(not option.disabled for option in options), len(self._presets) + len(self._broken)
        self.border_subtitle = f"{shown} of {known} · esc shows all" if typed else ""

    def _options(self, words: list[str]) -> Iterator[Option]:
        """Return the lines that match all words, below the headings of their groups."""
        shown = [preset for preset in self._presets if _fits(words, preset.name, preset.title, preset.group)]
        for group, members in groupby(shown, key=lambda preset: preset.group):
            yield _heading(group)
            yield from (Option(self._line(preset), preset.name) for preset in members)
        if broken := [file.name for file in self._broken if _fits(words, file.name)]:
            yield _heading("Cannot be read")
            yield from (Option(Content.assemble("  ! ", (printable(name), "$text-error")), name) for name in broken)

    def _line(self, preset: Preset) -> TwoEnds:
        mark = " (changed)" if preset.name in self._changed else ""
        note = Content.styled(self._notes.get(preset.name, ""), "dim")
        title = Content.styled(printable(preset.title), "dim")
        return TwoEnds(Content(f"  {printable(preset.name)}{mark}"), note, title, TITLES_BEGIN)


def _fits(words: list[str], *texts: str) -> bool:
    return all(word in " ".join(texts).lower() for word in words)


def _heading(group: str) -> Option:
    return Option(Content.styled(printable(group), "bold"), disabled=True)
