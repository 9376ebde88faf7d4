"""What can be done with the results of a run: exports, with the dialog that asks for format and path; a replay; and
the questions of a lesson."""

import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Button, Input, OptionList
from textual.widgets.option_list import Option

from ddptui.store.runs import RunError
from ddptui.text.sanitize import at_the_door
from ddptui.tui.background import in_background
from ddptui.tui.screens.answers import AnswersDialog
from ddptui.tui.screens.base import EndedRun, LabScreen
from ddptui.tui.screens.dialogs import Dialog, Question
from ddptui.tui.widgets.lists import Chooser

SUFFIXES = {"markdown": "md", "trace": "trace.json", "steps": "steps.csv"}  # if they differ from the format's name
FORMATS = {  # what each file contains; {}: the trial that the screen speaks of
    "html": "one file for a browser, with zoomable pictures",
    "svg": "a picture of all times, for a paper or a README",
    "differences.svg": "the differences to the baseline",
    "curves.svg": "the losses of all trials",
    "matrix.svg": "who waits for whom, in {}",
    "arrivals.svg": "how the ranks arrive, in {}",
    "timeline.svg": "a few steps on a time axis, in {}",
    "markdown": "the table with all its columns, and the findings",
    "csv": "a line per repeat, timing or buffer: all figures",
    "json": "everything, as in results.json",
    "trace": "the timeline, for ui.perfetto.dev",
    "steps": "CSV, a line per step, rank and operation",
}


def suffix(form: str) -> str:
    """Return the file suffix of a format, with its dot."""
    return f".{SUFFIXES.get(form, form)}"


def write(text: Callable[[], Iterable[str]], path: Path, *, replace: bool = False) -> None:
    """Write a text to a file. Raises OSError, or ValueError for an invalid path or text."""
    whole = text()  # first, so that an error leaves no empty file
    with path.open("w" if replace else "x", encoding="utf-8") as file:  # x: FileExistsError if the file exists
        file.writelines(at_the_door(piece, is_terminal=False) for piece in whole)


def why(error: Exception) -> str:
    """Return an error's reason in one line."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)


class ExportDialog(Dialog[tuple[str, Path] | None]):
    """Asks for format and path, which are the result. Enter exports from either field; Tab switches between them."""

    def __init__(self, name: str, form: str, forms: Sequence[str], trial: str) -> None:
        """`name`: of the run or comparison; `form`: the selected format; `trial`: that the screen speaks of."""
        super().__init__()
        self._exported, self._form, self._forms, self._trial = name, form, forms, trial

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog") as dialog:
            dialog.border_title = "Export"
            lines = (Option(f"{form:16}{FORMATS[form]}".replace("{}", self._trial), form) for form in self._forms)
            yield Chooser(*lines, markup=False)
            # Without selecting the text, since the first key would replace the whole path.
            path = Path.cwd() / (self._exported + suffix(self._form))
            yield Input(str(path), compact=True, select_on_focus=False)
            with Horizontal(classes="buttons"):
                yield Button("Cancel (esc)", id="cancel", action="screen.dismiss(None)", compact=True)
                yield Button("Export (enter)", id="export", variant="primary", compact=True)

    def on_mount(self) -> None:
        self.query_one(Chooser).highlighted = self._forms.index(self._form)

    @on(OptionList.OptionHighlighted)
    def _follow(self, event: OptionList.OptionHighlighted) -> None:
        path, ending = self.query_one(Input), suffix(self._form)
        self._form = event.option_id or self._form
        if path.value.endswith(ending):  # unless the user has typed another suffix
            path.value = path.value.removesuffix(ending) + suffix(self._form)
            path.action_end()

    @on(OptionList.OptionSelected)
    @on(Input.Submitted)
    @on(Button.Pressed, "#export")
    def _done(self) -> None:
        if path := self.query_one(Input).value.strip():
            self.dismiss((self._form, Path(os.path.abspath(os.path.expanduser(path)))))


class ExportableRun(LabScreen):
    """The base of the screens that show the results of a run: they can be exported, the run replayed,
    and the questions of a lesson answered."""

    forms: Sequence[str] = [*FORMATS]  # those that are offered

    @property
    def form(self) -> str:
        """The format that is offered first."""
        return "html"

    def exported(self) -> tuple[EndedRun, str | None]:
        """Return what there is to export, and the trial that the screen speaks of, with which a replay begins."""
        raise NotImplementedError

    def action_replay(self) -> None:
        ended, trial = self.exported()
        self.console_app.replay(*ended.run.own(trial))

    def action_answer(self) -> None:
        try:
            self.app.push_screen(AnswersDialog(self.exported()[0]))
        except RunError as error:
            self.console_app.complain("The answers cannot be read", str(error))

    @work(group="export")
    async def action_export(self, form: str = "") -> None:
        from ddptui.page.formats import pieces  # imported late, so that the first screen appears sooner

        ended, trial = self.exported()
        dialog = ExportDialog(ended.run.name, form or self.form, self.forms, trial or "")
        target = await self.app.push_screen_wait(dialog)
        if target is None:
            return
        form, path = target
        replace = os.path.exists(path)
        if replace and not await self.app.push_screen_wait(Question(f"{path} exists. Replace it?", y="Replace")):
            return
        try:  # the trace or the page of a long run takes its time
            await in_background(partial(write, partial(pieces, *ended, form, trial or ""), path, replace=replace))
        except (OSError, ValueError) as error:
            self.console_app.complain("Not exported", why(error))
        else:
            self.notify(str(path), title="Exported", markup=False)
