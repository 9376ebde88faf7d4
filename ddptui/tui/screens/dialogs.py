"""Small dialogs: a question, the columns of a table, and the name of a preset to save."""

from collections.abc import Collection, Sequence
from typing import ClassVar

from textual import on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Static
from textual.widgets.option_list import Option

from ddptui.config.parser import PresetError
from ddptui.config.preset import Preset
from ddptui.store import presets
from ddptui.text.tables import Filled
from ddptui.text.words import printable
from ddptui.tui.widgets.lists import Chooser


class Confirm(ModalScreen[bool]):
    """Dismissed with True for yes. The focus starts on no, so that a key hit twice does no harm."""

    CSS_PATH = "dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,n", "answer(False)", "No", show=False),
        Binding("y", "answer(True)", "Yes", show=False),
        Binding("left,right", "app.focus_next", show=False),
    ]

    def __init__(self, question: str, *, yes: str = "Yes", no: str = "No") -> None:
        super().__init__()
        self._question, self._yes, self._no = question, yes, no

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(self._question, markup=False)
            with Horizontal(classes="buttons"):
                yield Button(f"{self._no} (esc)", id="no", action="screen.answer(False)", compact=True)
                yield Button(f"{self._yes} (y)", id="yes", action="screen.answer(True)", variant="error", compact=True)

    def on_mount(self) -> None:
        self.query_one("#no").focus()

    def action_answer(self, yes: bool) -> None:
        self.dismiss(yes)


COLUMN_KEYS = "space show or hide   enter done\nf as many as fit     esc cancel"


class ColumnsDialog(ModalScreen[frozenset[str] | None]):
    """Dismissed with the keys of the chosen columns (none of them: as many as fit), or with None to change nothing."""

    CSS_PATH = "dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "show_or_hide", "Show or hide", show=False),
        Binding("enter", "done", "Done", show=False, priority=True),
        Binding("f", "fit", "As many as fit", show=False),
        Binding("escape", "dismiss(None)", "Cancel", show=False),
    ]

    def __init__(self, offered: Sequence[Filled], shown: Collection[str]) -> None:
        super().__init__()
        self._headers = {column.key: column.header for column in offered}
        self._shown = {*shown}

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog") as dialog:
            dialog.border_title = "Columns"
            yield Chooser(*(Option(self._line(key), key) for key in self._headers), markup=False)
            yield Static(COLUMN_KEYS, classes="keys")

    def _line(self, key: str) -> str:
        return f"{'✓' if key in self._shown else ' '} {self._headers[key]}"

    def action_show_or_hide(self) -> None:
        columns = self.query_one(Chooser)
        option = columns.highlighted_option
        if option is not None and option.id is not None:
            self._shown ^= {option.id}
            columns.replace_option_prompt(option.id, self._line(option.id))

    def action_done(self) -> None:
        self.dismiss(frozenset(self._shown))

    def action_fit(self) -> None:
        self.dismiss(frozenset())


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

    CSS_PATH = "dialogs.tcss"
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
                yield Button("Cancel (esc)", id="no", action="screen.dismiss(None)", compact=True)
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
