"""Lists in which the user chooses a line: recent runs, and presets with a filter. With the keys j k g G, as in less."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.css.styles import RulesMap
from textual.getters import query_one
from textual.message import Message
from textual.strip import Strip
from textual.style import Style
from textual.visual import RenderOptions, Visual
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from ddptui.config.preset import Preset
from ddptui.store.overview import SKIPPED, UNDER_WAY, Overview
from ddptui.store.presets import LESSONS_SHELF, BrokenPreset
from ddptui.store.runs import Run
from ddptui.tui.keys import bound, moves

TITLES_BEGIN = 33  # column in which titles begin if there is room for names, too
LONG = 95  # cells of a line that has room for both
NOT_HERE = "Not on this machine"
STATUS_MARKS = {
    "ok": ("✓", "$text-success"),
    SKIPPED: ("■", "$text-warning"),
    "failed": ("✗", "$text-error"),
    "interrupted": ("■", "$text-warning"),
    UNDER_WAY: ("▸", "$text-accent"),
}
UNKNOWN = ("?", "$text-error")  # for a status written by a newer ddptui


def _line_keys(*actions: str) -> list[BindingType]:
    """Bind j k g G to these four actions, which each kind of Textual widget names differently."""
    descriptions = ("One line down", "One line up", "To the start", "To the end")
    means = ("down", "up", "first", "last")
    return [bound(*each, show=False) for each in zip(means, actions, descriptions, strict=True)]


SCROLL_KEYS = _line_keys("scroll_down", "scroll_up", "scroll_home", "scroll_end")
ROW_KEYS = _line_keys("cursor_down", "cursor_up", "scroll_top", "scroll_bottom")


class Chooser(OptionList):
    """The base of all lists: without border, and with the keys j k g G."""

    BINDINGS: ClassVar[list[BindingType]] = _line_keys("cursor_down", "cursor_up", "first", "last")
    DEFAULT_CSS = """
    Chooser, Chooser:focus { border: none; padding: 0; background: transparent; scrollbar-size-vertical: 1; }
    """

    @property
    def chosen(self) -> str | None:
        """The id of the option under the cursor."""
        return self.highlighted_option.id if self.highlighted_option else None

    def refill(self, options: Sequence[Option]) -> None:
        """Replace the options. The cursor stays on its option if that still exists; otherwise it moves to the first."""
        chosen, scrolled = self.chosen, self.scroll_offset
        places = {option.id: place for place, option in enumerate(options) if not option.disabled}
        self.set_options(options)
        self.highlighted = places.get(chosen, next(iter(places.values()), None))
        if chosen in places:  # restore the position, since set_options scrolls to the top
            self.scroll_to(y=scrolled.y, animate=False, immediate=True)


class TwoEnds(Visual):
    """A line with a text on the left, and a note on the right. `first`: whether the note is shown first if there is no
    room for both. `long`: the text if there are LONG cells."""

    def __init__(self, left: Content, right: Content, *, first: bool = True, long: Content | None = None) -> None:
        self._left, self._right, self._first, self._long = left, right, first, long

    def render_strips(self, width: int, height: int | None, style: Style, options: RenderOptions) -> list[Strip]:
        line = self._long if self._long and width >= LONG else self._left
        if self._first or line.cell_length + 1 + self._right.cell_length <= width:
            room = max(0, width - self._right.cell_length - 1)
            line = Content.assemble(line.truncate(room, ellipsis=True, pad=True), " ", self._right)
        return line.truncate(max(width, 1), ellipsis=True).render_strips(width, 1, style, options)

    def get_optimal_width(self, rules: RulesMap, container_width: int) -> int:
        return container_width

    def get_height(self, rules: RulesMap, width: int) -> int:
        return 1


class RecentRuns(Chooser):
    """Lists the last runs, newest first."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "select", "Open the run")]
    DEFAULT_CSS = "RecentRuns:blur > .option-list--option-highlighted { background: transparent; text-style: none; }"
    BORDER_TITLE = "Last runs"
    runs: Sequence[Run] = ()

    def show(self, runs: Sequence[Overview]) -> None:
        """List these runs. The cursor keeps its position: if it was never moved, it is on the newest run."""
        place = self.highlighted
        self.runs = [recent.run for recent in runs]
        options = []
        for recent in runs:
            left = Content.assemble((f"{recent.when:>5} ", "dim"), recent.preset)
            mark = Content.assemble(STATUS_MARKS.get(recent.status, UNKNOWN), f" {recent.status}")
            options.append(Option(TwoEnds(left, mark)))
        self.set_options(options or [Option("none yet", disabled=True)])
        self.highlighted = min(place or 0, len(runs) - 1) if runs else None


class PresetChooser(Chooser):
    """The list of presets, without the filter."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "screen.run", "Run"),
        *moves("right", "screen.read", "Read about the preset"),
    ]


class PresetList(Vertical):
    """Lists the presets, with a filter for words in their names, titles and groups."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "clear_filter", "Show all presets", show=False)]
    DEFAULT_CSS = """
    PresetList { min-height: 4; }
    PresetList Input { display: none; }
    PresetList PresetChooser { height: 1fr; }
    PresetList PresetChooser > .option-list--option-disabled { color: $text-accent; }
    """

    @dataclass
    class Chosen(Message):
        """Posted when the cursor moves to a preset."""

        name: str

    BORDER_TITLE = "Presets"
    _chooser = query_one(PresetChooser)
    _shelves: Mapping[str, Sequence[Preset]] = {}
    _broken: Sequence[BrokenPreset] = ()
    _own: Collection[str] = ()
    _notes: Mapping[str, str] = {}
    _changed: Collection[str] = ()
    _unfit: Collection[str] = ()

    def compose(self) -> ComposeResult:
        yield Input(placeholder="name, title or group", compact=True)
        yield PresetChooser(id="presets")

    @property
    def chosen(self) -> str | None:
        """Return the name of the preset under the cursor."""
        return self._chooser.chosen

    def fill(
        self, shelves: Mapping[str, Sequence[Preset]], broken: Sequence[BrokenPreset], own: Collection[str]
    ) -> None:
        """List the presets of each shelf, and the files that cannot be read. `own`: names of the user's presets."""
        self._shelves, self._broken, self._own = shelves, broken, own
        self._list()

    def show_notes(self, notes: Mapping[str, str], changed: Collection[str], unfit: Collection[str]) -> None:
        """Show a note beside each preset, by name, if there is room. `changed`: names of presets with unsaved changes.
        `unfit`: names of those that this machine cannot run."""
        if (notes, changed, unfit) != (self._notes, self._changed, self._unfit):
            self._notes, self._changed, self._unfit = dict(notes), list(changed), list(unfit)
            self._list()

    @property
    def beside(self) -> str | None:
        """Return the name of the preset below the cursor, or above it if there is none."""
        options, place = self._chooser.options, self._chooser.highlighted
        if place is None:
            return None
        ways = [*options[place + 1 :], *reversed(options[:place])]
        return next((option.id for option in ways if option.id is not None), None)

    def choose(self, name: str) -> None:
        """Move the cursor to a preset, and show all presets."""
        self.action_clear_filter()
        self._chooser.highlighted = self._chooser.get_option_index(name)

    def filter(self) -> None:
        """Open the filter."""
        filter_input = self.query_one(Input)
        filter_input.display = True  # not by a class, which takes effect later, so that the next keys would miss it
        self.screen.set_focus(filter_input)

    def action_clear_filter(self) -> None:
        filter_input = self.query_one(Input)
        filter_input.value, filter_input.display = "", False
        self._list()  # now, since the message about the changed value arrives after the focus has moved
        self._chooser.focus()

    @on(Input.Submitted)
    def _go_to_list(self) -> None:
        self._chooser.focus()

    @on(PresetChooser.OptionHighlighted)
    def _post_chosen(self, event: PresetChooser.OptionHighlighted) -> None:
        if event.option_id is not None:
            self.post_message(self.Chosen(event.option_id))

    @on(Input.Changed)
    def _list(self) -> None:
        typed = self.query_one(Input).value
        options = [*self._options(typed.lower().split())]
        self._chooser.refill(options)
        shown, known = (
            sum(not option.disabled for option in options),
            sum(map(len, self._shelves.values())) + len(self._broken),
        )
        self.border_subtitle = f"{shown} of {known} · esc shows all" if typed else ""

    def _options(self, words: list[str]) -> Iterator[Option]:
        """Yield the lines that match all words, below the headings of their shelves."""
        presets = [preset for members in self._shelves.values() for preset in members]
        unfit = [preset for preset in presets if preset.name in self._unfit]
        shelves = {shelf: [each for each in members if each not in unfit] for shelf, members in self._shelves.items()}
        for shelf, members in (shelves | {NOT_HERE: unfit}).items():
            shown = [each for each in members if _fits(words, each.name, each.title, each.group, shelf)]
            if shown:
                yield Option(Content.styled(shelf, "bold"), disabled=True)
            for preset in shown:
                number = f"{members.index(preset) + 1} " if shelf == LESSONS_SHELF else ""
                yield Option(self._line(preset, number, "dim" if shelf == NOT_HERE else ""), preset.name)
        if broken := [file.name for file in self._broken if _fits(words, file.name)]:
            yield Option(Content.styled("Cannot be read", "bold"), disabled=True)
            signs = {name: " (own)" if name in self._own else "" for name in broken}
            yield from (
                Option(Content.assemble("  ! ", (name, "$text-error"), (sign, "dim")), name)
                for name, sign in signs.items()
            )

    def _line(self, preset: Preset, number: str, style: str) -> TwoEnds:
        """A preset's title, or its name if it is the user's own, who knows it by that; both if there is room."""
        name = f"  {number}{preset.name}"
        short = name if preset.name in self._own else f"  {number}{preset.title}"
        long = Content.assemble((f"{name:{TITLES_BEGIN}} ", style), (preset.title, "dim"))
        is_changed = preset.name in self._changed
        note = Content.styled("changed" if is_changed else self._notes.get(preset.name, ""), "dim")
        return TwoEnds(Content.styled(short, style), note, first=is_changed, long=long)


def _fits(words: list[str], *texts: str) -> bool:
    return all(word in " ".join(texts).lower() for word in words)
