"""The questions of a lesson, beside the cells of the table that answer them, with a field for the student's answers."""

from typing import Any, ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Button, Static, TextArea

from ddptui.report.table import asked
from ddptui.store.journal import RunLost
from ddptui.store.runs import RunError
from ddptui.text.words import count
from ddptui.tui.keys import bound, name_of
from ddptui.tui.screens.base import EndedRun
from ddptui.tui.screens.dialogs import Dialog, Question
from ddptui.tui.widgets.tables import LabTable

SAVED_EVERY_S = 1.0
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
    """Asks one question after the other. Saves what is typed every second, on the way to another question, and when it
    closes, for whatever reason. If the run cannot be written to, it says so and keeps the text."""

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
        self._saved = ended.run.answers(ended.preset)
        self._answers = [*self._saved]
        self._asked = asked(ended.preset, ended.results, self._answers)
        self._place = next((place for place, answer in enumerate(self._answers) if not answer.strip()), 0)
        self._field = TextArea(placeholder=IN_OWN_WORDS, highlight_cursor_line=False, id="answer")

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
        self.set_interval(SAVED_EVERY_S, self._save)

    def on_unmount(self) -> None:
        self._save()  # the console ends

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
        self._save()
        self._place = (self._place + by) % len(self._asked)
        self._show()

    def action_cancel(self) -> None:
        """Close the dialog; if the answers cannot be saved, ask first."""

        def leave(answer: str | None) -> None:
            if answer is not None:
                self.dismiss(None)

        if error := self._save():
            self.app.push_screen(Question(f"{error}. Close, and discard what is not saved?", y="Discard"), leave)
        else:
            self.dismiss(None)

    def _save(self) -> str:
        """Save the answers if they have changed. Returns why that failed, which the dialog shows, too; or nothing."""
        self._answers[self._place] = self._field.text
        error = ""
        if self._answers != self._saved:
            try:
                self._run.write_answers(self._preset, self._answers)
                self._saved = [*self._answers]
            except RunLost as lost:
                error = f"Not saved: {lost}"
        for why in self.query("#why").results(Static):  # none if the console ends
            why.display = bool(error)
            why.update(Content(error and f"{error}. Your text stays here until you close this dialog."))
        return error
