"""In which format a run is written, and where to."""

from pathlib import Path, PurePath
from typing import ClassVar, NamedTuple

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Button, Input, OptionList
from textual.widgets.option_list import Option

from ddptui.store.runs import Run
from ddptui.tui.exports import FORMATS, meant, offered
from ddptui.tui.widgets.chooser import Chooser

WORDS = {
    "markdown": "Markdown   the table with all its columns, and what is said of it",
    "csv": "CSV        a line a repeat, every figure in full",
    "json": "JSON       all there is, as results.json has it",
    "trace": "Trace      the timeline, for ui.perfetto.dev",
}


class Export(NamedTuple):
    form: str
    path: Path


class ExportDialog(ModalScreen[Export | None]):
    """Enter exports to the path that stands there, be it from the format or from the path; Tab goes between them."""

    CSS_PATH: ClassVar[list[str | PurePath]] = ["modal.tcss", "export.tcss"]
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Cancel", show=False)]

    def __init__(self, run: Run, form: str) -> None:
        super().__init__()
        self._run, self._form = run, form

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog") as dialog:
            dialog.border_title = "Export"
            yield Chooser(*(Option(words, form) for form, words in WORDS.items()))
            yield Input(str(offered(self._run, self._form)), compact=True, select_on_focus=False)
            with Horizontal(classes="buttons"):
                yield Button("Cancel (esc)", id="cancel", compact=True)
                yield Button("Export (enter)", id="export", variant="primary", compact=True)

    def on_mount(self) -> None:
        self.query_one(Chooser).highlighted = [*FORMATS].index(self._form)

    @on(OptionList.OptionHighlighted)
    def _follow(self, event: OptionList.OptionHighlighted) -> None:
        """The path ends as the format's files do, unless somebody has given it another end."""
        path, ending = self.query_one(Input), FORMATS[self._form]
        self._form = event.option_id or self._form
        if path.value.endswith(ending):
            path.value = path.value.removesuffix(ending) + FORMATS[self._form]

    @on(OptionList.OptionSelected)
    @on(Input.Submitted)
    @on(Button.Pressed, "#export")
    def _done(self) -> None:
        if path := self.query_one(Input).value.strip():
            self.dismiss(Export(self._form, meant(path)))

    @on(Button.Pressed, "#cancel")
    def action_leave(self) -> None:
        self.dismiss(None)
