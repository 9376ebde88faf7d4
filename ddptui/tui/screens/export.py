"""Export of a run to a file: what is written, and the dialog that asks for format and path."""

import os
from functools import partial
from pathlib import Path

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Button, Input, OptionList
from textual.widgets.option_list import Option

from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.report import table
from ddptui.report.trace import trace
from ddptui.store.runs import Run
from ddptui.tui.background import in_background
from ddptui.tui.screens.base import EndedRun, LabScreen
from ddptui.tui.screens.dialogs import Confirm, Dialog
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
    """Write a run in one of the FORMATS. Raises OSError, or ValueError for a path that cannot be one."""
    with path.open("w" if replace else "x", encoding="utf-8") as file:  # x: FileExistsError if it is there
        if form == "trace":
            file.writelines(trace(run.repeats(preset)))
        else:
            file.write(table.FORMATS[form](results, preset))


def why(error: Exception) -> str:
    """Return what went wrong, in one line."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)


class ExportDialog(Dialog[tuple[str, Path] | None]):
    """Dismissed with format and path. Enter exports from either field; Tab goes between them."""

    def __init__(self, run: Run, form: str) -> None:
        super().__init__()
        self._run, self._form = run, form

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog") as dialog:
            dialog.border_title = "Export"
            yield Chooser(*(Option(words, form) for form, words in DESCRIPTIONS.items()))
            # Not selected: the first key would replace the whole path.
            yield Input(str(offered(self._run, self._form)), compact=True, select_on_focus=False)
            with Horizontal(classes="buttons"):
                yield Button("Cancel (esc)", id="cancel", action="screen.dismiss(None)", compact=True)
                yield Button("Export (enter)", id="export", variant="primary", compact=True)

    def on_mount(self) -> None:
        self.query_one(Chooser).highlighted = [*FORMATS].index(self._form)

    @on(OptionList.OptionHighlighted)
    def _follow(self, event: OptionList.OptionHighlighted) -> None:
        path, ending = self.query_one(Input), FORMATS[self._form]
        self._form = event.option_id or self._form
        if path.value.endswith(ending):  # not if the user has typed another one
            path.value = path.value.removesuffix(ending) + FORMATS[self._form]

    @on(OptionList.OptionSelected)
    @on(Input.Submitted)
    @on(Button.Pressed, "#export")
    def _done(self) -> None:
        if path := self.query_one(Input).value.strip():
            self.dismiss((self._form, meant(path)))


class Exportable(LabScreen):
    """The base of the screens that show the results of a run: they can be exported, and the run replayed."""

    @property
    def ended(self) -> EndedRun:
        """What there is to export."""
        raise NotImplementedError

    def action_replay(self) -> None:
        self.console_app.replay(self.ended.run)

    @work(group="export")
    async def action_export(self, form: str = "markdown") -> None:
        ended = self.ended
        target = await self.app.push_screen_wait(ExportDialog(ended.run, form))
        if target is None:
            return
        form, path = target
        replace = os.path.exists(path)
        question = f"{path} is there. Replace it?"
        if replace and not await self.app.push_screen_wait(Confirm(question, yes="Replace")):
            return
        try:  # the trace of a long run takes its time
            await in_background(partial(write, *ended, form, path, replace=replace))
        except (OSError, ValueError) as error:
            self.console_app.complain("Not exported", why(error))
        else:
            self.notify(str(path), title="Exported", markup=False)
