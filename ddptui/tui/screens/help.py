"""What the keys do, made from the bindings."""

from textual.app import ComposeResult
from textual.screen import ModalScreen, Screen
from textual.widgets import Static


class HelpScreen(ModalScreen[None]):
    def __init__(self, of: Screen[object]) -> None:
        super().__init__()

    def compose(self) -> ComposeResult:
        yield Static("")
