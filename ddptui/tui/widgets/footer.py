"""The line of keys at the foot of a screen."""

from itertools import zip_longest
from typing import NamedTuple

from textual.app import ComposeResult, RenderResult
from textual.binding import ActiveBinding
from textual.content import Content
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Footer


class Shown(NamedTuple):
    """What is to be seen of a key."""

    key: str
    display: str
    description: str
    is_enabled: bool
    tooltip: str


class Key(Widget):
    """A key and what it does. A click presses it."""

    ALLOW_SELECT = False
    DEFAULT_CSS = """
    Key { width: auto; height: 1; text-wrap: nowrap; background: $footer-item-background; }
    Key:hover { pointer: pointer; color: $footer-key-foreground; background: $block-hover-background; }
    Key.-disabled { text-style: dim; }
    """
    PARTS = " {} ", "{} "  # the key and its description, with the room around them

    def __init__(self, shown: Shown) -> None:
        super().__init__()
        self.set_reactive(Widget.shrink, False)
        self._set(shown)

    def _set(self, shown: Shown) -> None:
        self._shown = shown
        self.tooltip = shown.tooltip or None
        self.set_class(not shown.is_enabled, "-disabled")

    def show(self, shown: Shown) -> None:
        """Show another key in place of this one."""
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


class Keys(Footer):
    """Textual's footer makes its keys anew whenever the focus moves, and restyles each of them three times, which took
    most of the time of a key press. Here they stay, and change what they show."""

    def compose(self) -> ComposeResult:
        yield from ()  # which keys there are is known once the screen has its widgets

    def bindings_changed(self, screen: Screen[object]) -> None:
        """Show the keys of the screen. Textual's own footer calls this for it."""
        if screen.app.app_focus and self.is_attached and screen is self.screen:
            self.call_after_refresh(self._show_keys)

    def _show_keys(self) -> None:
        if not self.is_attached:  # the screen was left meanwhile
            return
        active = self.screen.active_bindings
        first: dict[str, ActiveBinding] = {}  # of the keys that do the same
        for each in active.values():
            if each.binding.show:
                first.setdefault(each.binding.action, each)
        shown = [self._shown(each, each.tooltip) for each in first.values()]
        keys = [key for key in self.query_children(Key) if not isinstance(key, PaletteKey)]
        for key, what in zip_longest(keys, shown[: len(keys)]):
            key.display = what is not None
            if what is not None:
                key.show(what)
        new = [Key(each) for each in shown[len(keys) :]]
        if palette := self.query_children(PaletteKey):
            self.mount(*new, before=palette.first())
        else:
            last = active[self.app.COMMAND_PALETTE_BINDING]
            self.mount(*new, PaletteKey(self._shown(last, last.binding.tooltip or last.binding.description)))

    def _shown(self, active: ActiveBinding, tooltip: str) -> Shown:
        _, binding, is_enabled, _ = active
        return Shown(binding.key, self.app.get_key_display(binding), binding.description, is_enabled, tooltip)
