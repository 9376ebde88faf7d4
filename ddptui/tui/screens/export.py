"""Export of a run to a file: what is written, the dialog that asks for format and path, and the thread that writes."""

import asyncio
import os
from pathlib import Path
from typing import ClassVar, NamedTuple

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Button, Input, OptionList
from textual.widgets.option_list import Option

from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.report import table
from ddptui.report.trace import trace
from ddptui.store.runs import Run
from ddptui.tui.screens.base import LabScreen
from ddptui.tui.screens.dialogs import Confirm
from ddptui.tui.widgets.lists import Chooser

FORMATS = {"markdown": ".md", "csv": ".csv", "json": ".json", "trace": ".trace.json"}  # with the suffix of its file
DESCRIPTIONS = {
    "markdown": "Markdown   the table with all its columns, and the findings",
    "csv": "CSV        one line per repeat, every figure in full",
    "json": "JSON       everything, as in results.json",
    "trace": "Trace      the timeline, for ui.perfetto.dev",
}


def offered(run: Run, form: str) -> Path:
    """Return the path that the dialog suggests: in the current folder, named after the run."""
    return Path.cwd() / (run.name + FORMATS[form])


def meant(typed: str) -> Path:
    """Return the absolute path that the user meant."""
    return Path(os.path.abspath(os.path.expanduser(typed)))


def write(run: Run, preset: Preset, results: Results, form: str, path: Path, *, replace: bool = False) -> None:
    """Write a run in one of the FORMATS.

    Raises FileExistsError if the file exists and `replace` is False, and OSError or ValueError for other bad paths.
    """
    with path.open("w" if replace else "x", encoding="utf-8") as file:
        if form == "trace":
            file.writelines(trace(run.repeats(preset)))
        else:
            file.write(table.FORMATS[form](results, preset))


def why(error: Exception) -> str:
    """Return what went wrong, in one line."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)


async def export(screen: LabScreen, run: Run, preset: Preset, results: Results, form: str = "markdown") -> None:
    """Ask for format and path, and again before a file is replaced; then write it. To be awaited in a worker."""
    target = await screen.app.push_screen_wait(ExportDialog(run, form))
    if target is None:
        return
    replace = os.path.exists(target.path)
    question = f"{target.path} is there. Replace it?"
    if replace and not await screen.app.push_screen_wait(Confirm(question, yes="Replace")):
        return
    try:  # the trace of a long run takes its time
        await asyncio.to_thread(write, run, preset, results, target.form, target.path, replace=replace)
    except (OSError, ValueError) as error:
        screen.console_app.complain("Not exported", why(error))
    else:
        screen.notify(str(target.path), title="Exported", markup=False)


class Export(NamedTuple):
    """The user's answer: a format and a path."""

    form: str
    path: Path


class ExportDialog(ModalScreen[Export | None]):
    """Dismissed with format and path, or None. Enter exports from either field; Tab goes between them."""

    CSS_PATH = "dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "Cancel", show=False)]

    def __init__(self, run: Run, form: str) -> None:
        super().__init__()
        self._run, self._form = run, form

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog") as dialog:
            dialog.border_title = "Export"
            yield Chooser(*(Option(words, form) for form, words in DESCRIPTIONS.items()))
            yield Input(str(offered(self._run, self._form)), compact=True, select_on_focus=False)
            with Horizontal(classes="buttons"):
                yield Button("Cancel (esc)", id="cancel", action="screen.dismiss(None)", compact=True)
                yield Button("Export (enter)", id="export", variant="primary", compact=True)

    def on_mount(self) -> None:
        self.query_one(Chooser).highlighted = [*FORMATS].index(self._form)

    @on(OptionList.OptionHighlighted)
    def _follow(self, event: OptionList.OptionHighlighted) -> None:
        """Change the suffix of the path to the format's, unless the user has typed another one."""
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
