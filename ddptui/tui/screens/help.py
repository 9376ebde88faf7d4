"""What the keys do on a screen, made from its bindings, so that the two cannot differ."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen, Screen
from textual.widget import Widget
from textual.widgets import Static

EVERYWHERE = (
    ("? f1", "Help", ""),
    ("ctrl+p", "Command palette", "presets, runs, views, exports, themes"),
    ("tab shift+tab", "Next pane, pane before", ""),
    ("q ctrl+q", "Quit", "asks while something runs"),
)
OF_ALL_SCREENS = ("app.focus_next", "app.focus_previous", "screen.copy_text")
KEYS_WIDTH = 16


class HelpScreen(ModalScreen[None]):
    """Shows the keys that do something now: on the screen below, everywhere, and in the focused pane."""

    CSS_PATH = "help.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,f1,q", "dismiss(None)", "Close", show=False),
    ]

    def __init__(self, of: Screen[object]) -> None:
        super().__init__()
        self._of = of

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="help"):
            yield Static(Content("\n").join(self._lines()))

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).border_title = "Keys"
        self.query_one(VerticalScroll).border_subtitle = "esc closes"

    def _lines(self) -> list[Content]:
        lines = [Content(getattr(self._of, "PURPOSE", "")), Content("")]
        lines += [Content.styled("This screen", "bold"), *map(_line, _keys_of(self._of, self._of)), Content("")]
        lines += [Content.styled("Everywhere", "bold"), *map(_line, EVERYWHERE), Content("")]
        focused = self._of.focused
        if focused is not None and (keys := _keys_of(self._of, focused)):
            lines += [Content.styled(f"In the pane {_title(focused)}", "bold"), *map(_line, keys)]
        return lines


def _title(pane: Widget) -> str:
    """Return the title of a pane, or of the pane around a widget."""
    titles = [node.border_title for node in pane.ancestors_with_self if isinstance(node, Widget)]
    return next(filter(None, titles), "with the focus")


def _keys_of(screen: Screen[object], node: Widget) -> list[tuple[str, str, str]]:
    """Return keys, name and effect of a node's active bindings. Keys with the same effect share a line."""
    keys: dict[tuple[str, str], list[str]] = {}
    for active in screen.active_bindings.values():
        binding = active.binding
        if active.node is node and not binding.system and binding.action not in OF_ALL_SCREENS:
            keys.setdefault((binding.description, binding.tooltip), []).append(screen.app.get_key_display(binding))
    return [(" ".join(dict.fromkeys(names)), *effect) for effect, names in keys.items()]


def _line(entry: tuple[str, str, str]) -> Content:
    keys, name, what = entry
    return Content.assemble((f"  {keys:{KEYS_WIDTH}} ", "bold"), name, (f"  {what}" if what else "", "dim"))
