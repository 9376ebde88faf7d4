"""What can be done with the results of a run: exports, and the questions of a lesson beside the cells that answer
them."""

import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from textual import on, work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Button, Input, OptionList, Static, TextArea
from textual.widgets.option_list import Option

from ddptui.report.table import asked
from ddptui.store.journal import RunLost
from ddptui.store.runs import RunError
from ddptui.text.sanitize import at_the_door
from ddptui.text.words import count
from ddptui.tui.background import in_background
from ddptui.tui.keys import bound, name_of
from ddptui.tui.screens.base import EndedRun, LabScreen
from ddptui.tui.screens.dialogs import Dialog, Question
from ddptui.tui.widgets.lists import Chooser
from ddptui.tui.widgets.tables import LabTable

IN_OWN_WORDS = "Answer in your own words."


def invitation(ended: EndedRun, app: App[Any]) -> str:
    """Return how many questions a run has, how many are answered, and the key for it; empty: it has no questions, or
    its answers cannot be read."""
    try:
        answers = ended.run.answers(ended.preset)
    except RunError:  # the key shows the error
        return ""
    answered = f"{count(len(answers), 'question')}, {sum(bool(answer.strip()) for answer in answers)} answered"
    return f"{answered}: {name_of('answer', app)} answers them" if answers else ""


class AnswersDialog(Dialog[None]):
    """Asks one question after the other. Saves what is typed at once. If the run cannot be written to, it says so and
    keeps the text."""

    BINDINGS: ClassVar[list[BindingType]] = [
        # With priority, since the text field uses them, too.
        Binding("pagedown", "turn(1)", "Next question", show=False, priority=True),
        Binding("pageup", "turn(-1)", "Previous question", show=False, priority=True),
        bound("save", "cancel", "Close", show=False),
    ]

    def __init__(self, ended: EndedRun) -> None:
        """Raises RunError if the answers cannot be read."""
        super().__init__()
        self._run, self._preset = ended.run, ended.preset
        self._answers = [*ended.run.answers(ended.preset)]
        self._asked = asked(ended.preset, ended.results, self._answers)
        self._place = next((place for place, answer in enumerate(self._answers) if not answer.strip()), 0)
        self._field = TextArea(placeholder=IN_OWN_WORDS, highlight_cursor_line=False, id="answer", classes="pane")
        self._problem = ""  # why the answers cannot be saved

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(id="question", markup=False)
            yield LabTable(id="evidence", classes="pane")
            yield self._field
            yield Static(id="why", markup=False)
            with Horizontal(classes="buttons"):
                yield Button("Previous (pgup)", action="screen.turn(-1)", compact=True)
                yield Button("Next (pgdn)", action="screen.turn(1)", compact=True)
                yield Button("Close (esc)", action="screen.cancel", variant="primary", compact=True)

    def on_mount(self) -> None:
        self._show()

    def _show(self) -> None:
        question, table = self._asked[self._place], self.query_one(LabTable)
        self.query_one(".dialog").border_title = f"Question {self._place + 1} of {len(self._asked)}"
        self.query_one("#question", Static).update(Content(question.text))
        table.display = bool(question.evidence)
        if question.evidence:
            table.fill(question.evidence, question.evidence[0].cells)
        self._field.text = self._answers[self._place]
        self._field.move_cursor(self._field.document.end)
        self._field.focus()  # a click on a button has moved it

    def action_turn(self, by: int) -> None:
        self._place = (self._place + by) % len(self._asked)
        self._show()

    def action_cancel(self) -> None:
        """Close the dialog; if the answers cannot be saved, ask first."""

        def leave(answer: str | None) -> None:
            if answer is not None:
                self.dismiss(None)

        if self._problem:
            question = f"Not saved: {self._problem}. Close, and discard what is not saved?"
            self.app.push_screen(Question(question, y="Discard"), leave)
        else:
            self.dismiss(None)

    @on(TextArea.Changed)
    def _save(self) -> None:
        if self._field.text == self._answers[self._place]:
            return  # another question is shown
        self._answers[self._place], self._problem = self._field.text, ""
        try:
            self._run.write_answers(self._preset, self._answers)
        except RunLost as lost:
            self._problem = str(lost)
        why = f"Not saved: {self._problem}. Your text stays here until you close this dialog." * bool(self._problem)
        self.query_one("#why", Static).update(Content(why))


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
        dialog = ExportDialog(ended.run.name, form or "html", self.forms, trial or "")
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
