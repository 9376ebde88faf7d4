"""Exports a run to a file: the formats, and the dialog that asks for format and path."""

import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Button, Input, OptionList
from textual.widgets.option_list import Option

from ddptui.text.door import at_the_door
from ddptui.tui.background import in_background
from ddptui.tui.screens.base import EndedRun, LabScreen
from ddptui.tui.screens.dialogs import Confirm, Dialog
from ddptui.tui.widgets.lists import Chooser

SUFFIXES = {"markdown": "md", "trace": "trace.json"}  # file suffixes, if they differ from the format's name
TITLES = {"html": "HTML", "svg": "SVG", "markdown": "Markdown", "csv": "CSV", "json": "JSON", "trace": "Trace"}
FORMATS = {  # what each file contains; {}: the trial that the screen speaks of
    "html": "one file for a browser: everything, with zoomable pictures",
    "svg": "a picture for a paper or a README: the times of all trials",
    "differences.svg": "the differences to the baseline",
    "curves.svg": "the losses of all trials",
    "matrix.svg": "who waits for whom, in {}",
    "arrivals.svg": "how the ranks arrive, in {}",
    "timeline.svg": "a few steps on a time axis, in {}",
    "markdown": "the table with all its columns, and the findings",
    "csv": "one line per repeat, every figure in full",
    "json": "everything, as in results.json",
    "trace": "the timeline, for ui.perfetto.dev",
}


def offered(name: str, form: str) -> Path:
    """Return the path that the dialog suggests, in the current folder. name: of the exported run."""
    return Path.cwd() / (name + suffix(form))


def suffix(form: str) -> str:
    """Return the file suffix of a format, with its dot."""
    return f".{SUFFIXES.get(form, form)}"


def meant(typed: str) -> Path:
    """Return the absolute path for a path that the user typed."""
    return Path(os.path.abspath(os.path.expanduser(typed)))


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

    def __init__(self, name: str, form: str, forms: Mapping[str, str]) -> None:
        """`name`: of the run or comparison; `form`: the selected format; `forms`: format -> description."""
        super().__init__()
        self._exported, self._form, self._forms = name, form, forms

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog") as dialog:
            dialog.border_title = "Export"
            yield Chooser(
                *(Option(f"{TITLES[form.rpartition('.')[2]]:10} {holds}", form) for form, holds in self._forms.items())
            )
            # Without selecting the text, since the first key would replace the whole path.
            yield Input(str(offered(self._exported, self._form)), compact=True, select_on_focus=False)
            with Horizontal(classes="buttons"):
                yield Button("Cancel (esc)", id="cancel", action="screen.dismiss(None)", compact=True)
                yield Button("Export (enter)", id="export", variant="primary", compact=True)

    def on_mount(self) -> None:
        self.query_one(Chooser).highlighted = [*self._forms].index(self._form)

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
            self.dismiss((self._form, meant(path)))


class ExportableRun(LabScreen):
    """The base of the screens that show the results of a run: they can be exported, and the run replayed."""

    forms: Mapping[str, str] = FORMATS  # those that are offered, and what a file of each holds

    @property
    def ended(self) -> EndedRun:
        """What there is to export."""
        raise NotImplementedError

    @property
    def chosen_trial(self) -> str | None:
        """The trial that the screen speaks of, with which a replay begins."""
        raise NotImplementedError

    def action_replay(self) -> None:
        self.console_app.replay(*self.ended.run.own(self.chosen_trial))

    @work(group="export")
    async def action_export(self, form: str = "html") -> None:
        from ddptui.page.formats import pieces  # imported late, so that the first screen appears sooner

        trial = self.chosen_trial or ""
        forms = {form: holds.replace("{}", trial) for form, holds in self.forms.items()}
        target = await self.app.push_screen_wait(ExportDialog(self.ended.run.name, form, forms))
        if target is None:
            return
        form, path = target
        replace = os.path.exists(path)
        question = f"{path} exists. Replace it?"
        if replace and not await self.app.push_screen_wait(Confirm(question, yes="Replace")):
            return
        try:  # the trace or the page of a long run takes its time
            await in_background(partial(write, partial(pieces, *self.ended, form, trial), path, replace=replace))
        except (OSError, ValueError) as error:
            self.console_app.complain("Not exported", why(error))
        else:
            self.notify(str(path), title="Exported", markup=False)
