"""What the keys do here, made from the bindings, so that it cannot differ from them."""

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
        lines += [Content.styled("This screen", "bold"), *map(_line, bindings_of(self._of, self._of)), Content("")]
        lines += [Content.styled("Everywhere", "bold"), *map(_line, EVERYWHERE), Content("")]
        focused = self._of.focused
        if focused is not None and (own := bindings_of(self._of, focused)):
            lines += [Content.styled(f"In the pane {_title(focused)}", "bold"), *map(_line, own)]
        return lines


def _title(pane: Widget) -> str:
    """Of the pane, or of the one that it is in."""
    titles = [node.border_title for node in pane.ancestors_with_self if isinstance(node, Widget)]
    return next(filter(None, titles), "with the focus")


def bindings_of(screen: Screen[object], node: Widget) -> list[tuple[str, str, str]]:
    """A node's own bindings that mean something now: keys, name, what it does. Keys for the same share a line."""
    found: dict[tuple[str, str], list[str]] = {}
    for binding in (each for bindings in node._bindings.key_to_bindings.values() for each in bindings):
        allowed = node.check_action(binding.action.partition("(")[0], ()) if node is screen else True
        if binding.system or allowed is False or binding.action in OF_ALL_SCREENS:
            continue
        found.setdefault((binding.description, binding.tooltip), []).append(screen.app.get_key_display(binding))
    return [(" ".join(dict.fromkeys(keys)), *what) for what, keys in found.items()]


def _line(entry: tuple[str, str, str]) -> Content:
    keys, name, what = entry
    return Content.assemble((f"  {keys:{KEYS_WIDTH}} ", "bold"), name, (f"  {what}" if what else "", "dim"))
