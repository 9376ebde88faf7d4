"""The presets in their groups, what each would take, and a filter over them."""

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
from ddptui.text.printable import printable
from ddptui.tui.widgets.lists import Chooser, TwoEnds

TITLES_BEGIN = 34


class PresetChooser(Chooser):
    """The list itself, without the filter."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "screen.run", "Run"),
        Binding("right,l", "screen.read", "Read what it is about", show=False),
    ]


class PresetList(Vertical):
    """`notes`: by name, how long a preset would take; `changed`: those with changes that are not saved."""

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
        option = self.query_one(PresetChooser).highlighted_option
        return option.id if option else None

    def fill(self, presets: Sequence[Preset], broken: Sequence[BrokenPreset]) -> None:
        """List these presets, and the files that cannot be read."""
        self._presets, self._broken = presets, broken
        self._list()

    def note(self, notes: Mapping[str, str], changed: Collection[str]) -> None:
        """Say anew what is known of the presets; the cursor stays."""
        if (notes, changed) != (self._notes, self._changed):
            self._notes, self._changed = dict(notes), list(changed)
            self._list()

    def choose(self, name: str) -> None:
        """Put the cursor on a preset, whatever is filtered."""
        self.action_clear_filter()
        chooser = self.query_one(PresetChooser)
        chooser.highlighted = chooser.get_option_index(name)

    def filter(self) -> None:
        """Begin to look for something."""
        words = self.query_one(Input)
        words.display = True  # and at once, unlike with a class, so that what is typed next goes there
        self.screen.set_focus(words)

    def action_clear_filter(self) -> None:
        words = self.query_one(Input)
        words.value, words.display = "", False
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
    def _tell(self, event: PresetChooser.OptionHighlighted) -> None:
        event.stop()
        if event.option_id is not None:
            self.post_message(self.Chosen(event.option_id))

    def _list(self) -> None:
        """Fill the list anew, with the cursor on the preset that it was on, if that is still there."""
        chooser, chosen = self.query_one(PresetChooser), self.chosen
        options = [*self._options(self.query_one(Input).value.lower().split())]
        places = {option.id or "": place for place, option in enumerate(options) if not option.disabled}
        scrolled = chooser.scroll_offset
        chooser.set_options(options)
        chooser.highlighted = places.get(chosen or "", next(iter(places.values()), None))
        if chosen in places:
            chooser.scroll_to(y=scrolled.y, animate=False, immediate=True)
        self._say_how_many(len(places))

    def _options(self, words: list[str]) -> Iterator[Option]:
        """A heading for each group that has something to show."""
        shown = [preset for preset in self._presets if _fits(words, preset.name, preset.title, preset.group)]
        for group, members in groupby(shown, key=lambda preset: preset.group):
            yield _heading(group)
            yield from (Option(self._line(preset), preset.name) for preset in members)
        broken = [one for one in self._broken if _fits(words, one.name)]
        if broken:
            yield _heading("Cannot be read")
            yield from (
                Option(Content.assemble("  ! ", (printable(one.name), "$text-error")), one.name) for one in broken
            )

    def _line(self, preset: Preset) -> TwoEnds:
        mark = " (changed)" if preset.name in self._changed else ""
        note = Content.styled(self._notes.get(preset.name, ""), "dim")
        title = Content.styled(printable(preset.title), "dim")
        return TwoEnds(Content(f"  {printable(preset.name)}{mark}"), note, title, TITLES_BEGIN)

    def _say_how_many(self, shown: int) -> None:
        known = len(self._presets) + len(self._broken)
        filtering = bool(self.query_one(Input).value)
        self.border_subtitle = f"{shown} of {known} · esc shows all" if filtering else ""


def _fits(words: list[str], *texts: str) -> bool:
    return all(word in " ".join(texts).lower() for word in words)


def _heading(group: str) -> Option:
    return Option(Content.styled(printable(group), "bold"), disabled=True)
