"""The footer: the line of keys at the bottom of a screen."""

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple

from textual.app import ComposeResult, RenderResult
from textual.binding import ActiveBinding
from textual.content import Content
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Footer

PALETTE_PADDING = 2  # cells of the border and the padding around the palette's key


class Shown(NamedTuple):
    """What the footer shows of a key."""

    key: str
    display: str
    description: str
    is_enabled: bool
    tooltip: str

    @property
    def width(self) -> int:
        """The cells that the key takes, with its padding."""
        return len(f" {self.display} {self.description} ")


class Key(Widget):
    """A key with its description. A click presses it."""

    ALLOW_SELECT = False
    DEFAULT_CSS = """
    Key { width: auto; height: 1; text-wrap: nowrap; background: $footer-item-background; }
    Key:hover { pointer: pointer; color: $footer-key-foreground; background: $block-hover-background; }
    Key.-disabled { text-style: dim; }
    """
    PARTS = " {} ", "{} "  # the key and its description, with padding

    def __init__(self, shown: Shown) -> None:
        super().__init__()
        self.set_reactive(Widget.shrink, False)
        self._set(shown)

    def _set(self, shown: Shown) -> None:
        self._shown = shown
        self.tooltip = shown.tooltip or None
        self.set_class(not shown.is_enabled, "-disabled")

    def show(self, shown: Shown) -> None:
        """Show another key instead."""
        if shown != self._shown:
            self._set(shown)
            self.refresh(layout=True)

    def render(self) -> RenderResult:
        key, description = self.PARTS
        return Content.assemble(
            (key.format(self._shown.display), "bold $footer-key-foreground on $footer-key-background"),
            (
                description.format(self._shown.description),
                "$footer-description-foreground on $footer-description-background",
            ),
        )

    def on_mouse_down(self) -> None:
        if self._shown.is_enabled:
            self.app.simulate_key(self._shown.key)
        else:
            self.app.bell()


class PaletteKey(Key):
    """The key of the command palette, on the right."""

    DEFAULT_CSS = "PaletteKey { dock: right; padding-right: 1; border-left: vkey $foreground 20%; }"
    PARTS = "{}", " {}"


def _without_room(keys: Mapping[str, Shown], spare: Sequence[str], room: int) -> set[str]:
    """Returns the spare actions that do not fit beside the other keys."""
    room -= sum(key.width for action, key in keys.items() if action not in spare)
    left_out = set()
    for action in spare:
        if action in keys and keys[action].width <= room:
            room -= keys[action].width
        else:
            left_out.add(action)
    return left_out


class Keys(Footer):
    """A footer that reuses its key widgets. Textual's footer creates them again whenever the focus moves, and restyles
    each three times, which took most of the time of a key press. If there is room, it also shows the keys of the
    screen's SPARE_KEYS, the first ones first."""

    def compose(self) -> ComposeResult:
        yield from ()  # the keys are known only when the screen has its widgets

    def bindings_changed(self, screen: Screen[object]) -> None:
        """Show the keys of the screen (called by Textual's footer)."""
        if screen.app.app_focus and self.is_attached and screen is self.screen:
            self.call_after_refresh(self._show_keys)

    def _show_keys(self) -> None:
        if not self.is_attached:  # the user has left the screen
            return
        active = self.screen.active_bindings
        last = active[self.app.COMMAND_PALETTE_BINDING]
        palette_key = self._shown(last, last.binding.tooltip or last.binding.description)
        first: dict[str, Shown] = {}  # for each action, its first key
        spare: Sequence[str] = getattr(self.screen, "SPARE_KEYS", ())
        for each in active.values():
            if each.binding.show or each.binding.action in spare:
                first.setdefault(each.binding.action, self._shown(each, each.tooltip))
        left_out = _without_room(first, spare, self.size.width - palette_key.width - PALETTE_PADDING)
        shown = [key for action, key in first.items() if action not in left_out]
        keys = [key for key in self.query_children(Key) if not isinstance(key, PaletteKey)]
        for key, what in zip_longest(keys, shown[: len(keys)]):
            key.display = what is not None
            if what is not None:
                key.show(what)
        new = [Key(each) for each in shown[len(keys) :]]
        if palette := self.query_children(PaletteKey):
            self.mount(*new, before=palette.first())
        else:
            self.mount(*new, PaletteKey(palette_key))

    def on_resize(self) -> None:
        self.bindings_changed(self.screen)

    def _shown(self, active: ActiveBinding, tooltip: str) -> Shown:
        _, binding, is_enabled, _ = active
        return Shown(binding.key, self.app.get_key_display(binding), binding.description, is_enabled, tooltip)
