"""Save a changed preset under a name of the user's choice."""

from typing import ClassVar

from textual import on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Static

from ddptui.config.parser import PresetError
from ddptui.config.preset import Preset
from ddptui.store import presets
from ddptui.text.printable import printable
from ddptui.tui.screens.confirm import Confirm


async def save_as_own(app: App[object], preset: Preset) -> str | None:
    """Ask for a name, and again before a preset is replaced; then save. Return the name, or None if nothing was saved.
    To be awaited in a worker."""
    name = await app.push_screen_wait(SavePreset(presets.suggested_name(preset.name)))
    if name is None:
        return None
    question = f"There is a preset {name}. Replace it?"
    if presets.user_preset_path(name).exists() and not await app.push_screen_wait(Confirm(question, yes="Replace")):
        return None
    try:
        presets.save(preset, name)
    except PresetError as error:
        app.notify(printable(str(error)), title="Not saved", severity="error", timeout=8, markup=False)
        return None
    app.notify(printable(str(presets.user_preset_path(name))), title=f"Saved as {name}", markup=False)
    return name


class SavePreset(ModalScreen[str | None]):
    """Dismissed with a valid name, or None."""

    CSS_PATH = "modal.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "Cancel", show=False)]

    def __init__(self, usual: str) -> None:
        super().__init__()
        self._usual = usual

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static("Save as your own preset, named", markup=False)
            yield Input(self._usual, compact=True)
            yield Static(id="why", markup=False)
            with Horizontal(classes="buttons"):
                yield Button("Cancel (esc)", id="no", compact=True)
                yield Button("Save (enter)", id="yes", variant="primary", compact=True)

    def on_mount(self) -> None:
        self.query_one(Input).focus()

    @on(Input.Changed)
    def _show_refusal(self, event: Input.Changed) -> None:
        self.query_one("#why", Static).update(Content(presets.name_problem(event.value.strip())))

    @on(Input.Submitted)
    @on(Button.Pressed, "#yes")
    def _answer(self) -> None:
        """Do nothing while the name is not valid: the dialog shows why."""
        name = self.query_one(Input).value.strip()
        if not presets.name_problem(name):
            self.dismiss(name)

    @on(Button.Pressed, "#no")
    def _cancel(self) -> None:
        self.dismiss(None)
