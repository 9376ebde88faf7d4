"""Under which name a changed preset is kept."""

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Static

from ddptui.own_presets import refusal


class SavePreset(ModalScreen[str | None]):
    """Dismissed with a name that can be used, or None."""

    CSS_PATH = "modal.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "Cancel", show=False)]

    def __init__(self, usual: str) -> None:
        super().__init__()
        self._usual = usual

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static("Save as a preset of your own, called", markup=False)
            yield Input(self._usual, compact=True)
            yield Static(id="why", markup=False)
            with Horizontal(classes="buttons"):
                yield Button("Cancel (esc)", id="no", compact=True)
                yield Button("Save (enter)", id="yes", variant="primary", compact=True)

    def on_mount(self) -> None:
        self.query_one(Input).focus()

    @on(Input.Changed)
    def _judge(self, event: Input.Changed) -> None:
        self.query_one("#why", Static).update(Content(refusal(event.value.strip())))

    @on(Input.Submitted)
    @on(Button.Pressed, "#yes")
    def _answer(self) -> None:
        """Nothing happens while the name cannot be: why is on the screen."""
        name = self.query_one(Input).value.strip()
        if not refusal(name):
            self.dismiss(name)

    @on(Button.Pressed, "#no")
    def _cancel(self) -> None:
        self.dismiss(None)
