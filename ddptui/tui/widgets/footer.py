"""The footer: the line of keys at the bottom of a screen."""

from collections.abc import Sequence

from textual.binding import ActiveBinding
from textual.content import Content
from textual.events import MouseMove
from textual.reactive import reactive
from textual.style import Style
from textual.widgets import Static

DIVIDER = "▏"  # before the palette's key


class Keys(Static):
    """The keys that are active now; a click presses one, and the mouse shows what it does. If there is room, also the
    keys of the screen's SPARE_KEYS, the first ones first. Textual's own footer makes a widget for each key whenever the
    focus moves, which took most of the time of a key press."""

    ALLOW_SELECT = False
    auto_links: reactive[bool] = reactive(False)  # keys keep their colors
    DEFAULT_CSS = "Keys { dock: bottom; height: 1; color: $footer-foreground; background: $footer-background; }"

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, lambda _: self.on_resize())

    def on_resize(self) -> None:
        self.call_after_refresh(self._show_keys)  # the keys are known only when the screen has its widgets

    def on_mouse_move(self, event: MouseMove) -> None:
        self.tooltip = event.style.meta.get("tooltip")

    def on_leave(self) -> None:
        self.tooltip = None

    def _show_keys(self) -> None:
        if not self.is_attached or not self.app.app_focus:  # the user has left the screen, or the terminal
            return
        active = self.screen.active_bindings
        last = active[self.app.COMMAND_PALETTE_BINDING]
        palette = Content.assemble((DIVIDER, "$foreground 20%"), self._key(last, "palette"), " ")
        spare: Sequence[str] = getattr(self.screen, "SPARE_KEYS", ())
        first: dict[str, Content] = {}  # for each action, its first key
        for each in active.values():
            if (each.binding.show or each.binding.action in spare) and each is not last:
                first.setdefault(each.binding.action, Content.assemble(" ", self._key(each), " "))
        width = max(0, self.size.width - palette.cell_length)
        room, shown = width, list[Content]()
        for action in sorted(first, key=lambda action: spare.index(action) + 1 if action in spare else 0):
            if action not in spare or first[action].cell_length <= room:
                shown.append(first[action])
                room -= first[action].cell_length
        self.update(Content.assemble(Content.assemble(*shown).truncate(width, pad=True), palette), layout=False)

    def _key(self, active: ActiveBinding, name: str = "") -> Content:
        """Return a key with its description."""
        _, binding, is_enabled, tooltip = active
        action = f"app.simulate_key('{binding.key}')" if is_enabled else "app.bell"
        shown = Content.assemble(
            (self.app.get_key_display(binding), "bold $footer-key-foreground"), f" {name or binding.description}"
        )
        meta = {"@click": action, "tooltip": tooltip or binding.tooltip or None}
        return (shown if is_enabled else shown.stylize("dim")).stylize(Style.from_meta(meta))
