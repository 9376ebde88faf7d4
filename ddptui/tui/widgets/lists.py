"""Lists in which the user chooses a line: recent runs, and presets with a filter. With the keys j k g G, as in less."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.css.styles import RulesMap
from textual.getters import query_one
from textual.strip import Strip
from textual.style import Style
from textual.visual import RenderOptions, Visual
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from ddptui.config.preset import Preset
from ddptui.store.overview import SKIPPED, UNDER_WAY, Overview
from ddptui.store.presets import LESSONS_SHELF, YOURS
from ddptui.store.runs import Run
from ddptui.text.drawing import ljust
from ddptui.tui.keys import bound, moves

TITLES_BEGIN = 33  # column in which titles begin if there is room for names, too
LONG = 95  # cells of a line that has room for both
Shelves = Mapping[str, Sequence[Preset]]  # presets by the heading above them
NOT_HERE, BROKEN = "Not on this machine", "Cannot be read"
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
        """Replace the options. The cursor stays on its option or, if that is gone, moves to the next one."""
        chosen, place, scrolled = self.chosen, self.highlighted or 0, self.scroll_offset
        self.set_options(options)
        enabled = {option.id: index for index, option in enumerate(options) if not option.disabled}
        next_one = next((index for index in enabled.values() if index >= place), max(enabled.values(), default=None))
        self.highlighted = enabled.get(chosen, next_one)
        self.scroll_to(y=scrolled.y, animate=False, immediate=True)  # since set_options scrolls to the top


class TwoEnds(Visual):
    """A line with a text on the left, which is cut if there is no room for both, and a note on the right. `long`: the
    text if there are LONG cells."""

    def __init__(self, left: Content, right: Content, *, long: Content | None = None) -> None:
        self._left, self._right, self._long = left, Content.assemble(" " * bool(right), right), long

    def render_strips(self, width: int, height: int | None, style: Style, options: RenderOptions) -> list[Strip]:
        left = self._long if self._long and width >= LONG else self._left
        room = max(0, width - self._right.cell_length)
        line = Content.assemble(left.truncate(room, ellipsis=True, pad=True), self._right)
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
        """List these runs."""
        self.runs = [recent.run for recent in runs]
        options = []
        for recent in runs:
            left = Content.assemble((f"{recent.when_in_short:>5} ", "dim"), recent.preset)
            mark = Content.assemble(STATUS_MARKS.get(recent.status, UNKNOWN), f" {recent.status}")
            options.append(Option(TwoEnds(left, mark), recent.run.name))
        self.refill(options or [Option("none yet", disabled=True)])


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
    BORDER_TITLE = "Presets"
    _chooser = query_one(PresetChooser)
    _shelves: Mapping[str, Sequence[Preset]] = {}
    _broken: Sequence[str] = ()
    _notes: Mapping[str, str] = {}
    _unfit: Collection[str] = ()

    def compose(self) -> ComposeResult:
        yield Input(placeholder="name, title or group", compact=True)
        yield PresetChooser(id="presets")

    def show(self, shelves: Shelves, broken: Sequence[str], notes: Mapping[str, str], unfit: Collection[str]) -> None:
        """List the presets of each shelf, with a note beside each, by name. `broken`: names of files that cannot be
        read; `unfit`: names of presets that this machine cannot run."""
        shown = shelves, broken, notes, unfit
        if shown != (self._shelves, self._broken, self._notes, self._unfit):
            self._shelves, self._broken, self._notes, self._unfit = shown
            self._list()

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

    @on(Input.Changed)
    def _filter(self) -> None:
        self._chooser.highlighted = None  # the first match is chosen
        self._list()

    def _list(self) -> None:
        typed = self.query_one(Input).value
        options = [*self._options(typed.lower().split())]
        self._chooser.refill(options)
        known = sum(map(len, [*self._shelves.values(), self._broken]))
        shown = sum(not option.disabled for option in options)
        self.border_subtitle = f"{shown} of {known} · esc shows all" if typed else ""

    def _options(self, words: list[str]) -> Iterator[Option]:
        """Yield the lines that match all words, below the headings of their shelves."""
        lines: dict[str, list[Option]] = {shelf: [] for shelf in (*self._shelves, NOT_HERE, BROKEN)}
        for shelf, members in self._shelves.items():
            for number, preset in enumerate(members, 1):
                if _fits(words, preset.name, preset.title, preset.localized_title, preset.group, shelf):
                    lines[NOT_HERE if preset.name in self._unfit else shelf].append(self._line(preset, shelf, number))
        lines[BROKEN] = [
            Option(Content.styled(f"  ! {name}", "$text-error"), name) for name in self._broken if _fits(words, name)
        ]
        for heading, options in lines.items():
            if options:
                yield Option(Content.styled(heading, "bold"), disabled=True)
                yield from options

    def _line(self, preset: Preset, shelf: str, number: int) -> Option:
        """A preset's title, or its name if it is the user's own, who knows it by that; both if there is room."""
        name = f"  {number} {preset.name}" if shelf == LESSONS_SHELF else f"  {preset.name}"
        short = name if shelf == YOURS else name.removesuffix(preset.name) + preset.localized_title
        long = Content.assemble(f"{ljust(name, TITLES_BEGIN)} ", (preset.localized_title, "dim"))
        note = Content.styled(self._notes.get(preset.name, ""), "dim")
        return Option(TwoEnds(Content(short), note, long=long), preset.name)


def _fits(words: list[str], *texts: str) -> bool:
    return all(word in " ".join(texts).lower() for word in words)
