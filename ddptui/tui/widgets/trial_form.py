"""The form that changes a preset before it runs: all of its trials, or one of them."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal, Vertical
from textual.content import Content
from textual.events import DescendantFocus
from textual.message import Message
from textual.suggester import Suggester, SuggestFromList
from textual.widgets import Input, Select, Static

from ddptui.config.catalog import COMMAND
from ddptui.config.fields import FIELDS, choices, completions
from ddptui.config.parser import BOTTLENECK
from ddptui.config.preset import Preset
from ddptui.config.trial import LINK
from ddptui.config.values import IN_WORDS
from ddptui.engines.checks import torchvision_models
from ddptui.engines.gpu_checks import OUR_MODELS
from ddptui.text.words import NOTHING
from ddptui.tui import draft as drafts
from ddptui.tui.draft import COMMON, LINE, REPEATS, Draft, Validation, about, as_it_is
from ddptui.tui.keys import bound

CHANGED, WRONG = "*", "!"


class Field(Horizontal):
    """A line with a label and an answer. Empty, it shows the preset's value, which then stays."""

    DEFAULT_CSS = """
    Field { height: 1; width: 1fr; }
    Field > Static { width: 13; color: $text-muted; }
    Field > Input, Field > Select { width: 1fr; }
    Field.-changed > Static { color: $text-accent; text-style: bold; }
    Field.-wrong > Static { color: $text-error; text-style: bold; }
    Field:focus-within > Static { text-style: reverse; }
    """

    def __init__(self, label: str, answer: Input | Select[str], *, id: str) -> None:
        super().__init__(id=id)
        self.answer, self.label = answer, label

    def compose(self) -> ComposeResult:
        yield Static(f"  {self.label}", markup=False)
        yield self.answer

    @property
    def text(self) -> str | None:
        """The answer; None: as in the preset."""
        value = self.answer.value  # of a list without an answer: Select.NULL
        return value.strip() or None if isinstance(value, str) else None

    def show(self, text: str | None, as_it_is: str) -> None:
        """Show an answer without posting that it has changed. `as_it_is`: what applies without one."""
        with self.prevent(Input.Changed, Select.Changed):  # only the user's own changes are posted
            if isinstance(self.answer, Input):
                self.answer.placeholder = as_it_is
                self.answer.value = text or ""
            else:
                if isinstance(self.answer, Choice):
                    self.answer.offer(text)
                self.answer.prompt = as_it_is
                self.answer.value = Select.NULL if text is None else text

    def mark(self, *, wrong: bool) -> None:
        """Mark the label of an answer that was changed, or is wrong."""
        changed = self.text is not None
        self.update_classes({"-changed": changed, "-wrong": wrong})
        sign = WRONG if wrong else CHANGED if changed else " "
        self.query_one(Static).update(Content(f"{sign} {self.label}"), layout=False)


class Choice(Select[str], inherit_bindings=False):
    """A list to choose from, whose arrow keys lead to other fields: enter opens it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter,space", "show_overlay", "Choose", show=False)]

    def offer(self, value: str | None) -> None:
        """Add a value to the list unless it is there: the user's own code."""
        names = [name for _, name in self._options if isinstance(name, str)]
        if value is not None and value not in names:
            self.set_options((name, name) for name in [*names, value])


class WordSuggester(Suggester):
    """Completes the last word of a line of KEY=VALUE: the key, then a value that it can have."""

    def __init__(self, fields: Callable[[], Sequence[str]]) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self._fields = fields

    async def get_suggestion(self, value: str) -> str | None:
        """Return the line with its last word completed; None: nothing fits."""
        before, space, word = value.rpartition(" ")
        known = self._fields()
        found = (each for each in completions(word) if each != word and each.partition("=")[0] in known)
        completed = next(found, None) if word else None
        return None if completed is None else f"{before}{space}{completed}"


class TrialForm(Vertical):
    """Has a field for the common settings that mean something to the preset, and a line for all others. An empty field
    changes nothing."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f5", "screen.run", "Run"),
        bound("reset", "screen.reset", "Reset"),
        bound("save", "screen.save", "Save as mine"),
        Binding("enter,down", "step(1)", "Next field", key_display="↑ ↓"),
        Binding("up", "step(-1)", "Previous field", show=False),
        Binding("escape", "screen.back", "Back"),
    ]
    DEFAULT_CSS = """
    TrialForm { height: auto; min-height: 7; }
    TrialForm > #fields { height: auto; }
    TrialForm .fields { layout: grid; grid-size: 2; grid-gutter: 0 2; height: auto; grid-rows: 1; }
    TrialForm > #meaning { height: 2; color: $text-muted; }
    TrialForm > #reason { height: auto; max-height: 3; color: $text-error; display: none; }
    TrialForm.-refused > #reason { display: block; }
    """

    @dataclass
    class Changed(Message):
        """The user changed a field."""

        draft: Draft

    trial: str | None = None  # the trial that is changed; None: all are
    _preset: Preset | None = None  # without the changes
    _made: Preset | None = None  # with them, or with the last ones that were valid
    _draft = Draft("")
    _reason = ""  # why the draft cannot run
    _fields: Mapping[str, Field] = {}  # by their names in --set; empty until they are mounted

    def compose(self) -> ComposeResult:
        yield Vertical(id="fields")
        yield Static(id="meaning", markup=False)
        yield Static(id="reason", markup=False)

    def on_mount(self) -> None:
        self.call_after_refresh(self._add_fields)  # they would make the first frame half as long again

    async def _add_fields(self) -> None:
        fields = {key: Field(key, _answer(key), id=key) for key in COMMON}
        typed = Input(compact=True, select_on_focus=False, suggester=WordSuggester(self._others))
        fields[LINE] = Field("others", typed, id=LINE)
        await self.query_one("#fields").mount(
            Container(*(field for key, field in fields.items() if key not in (BOTTLENECK, LINE)), classes="fields"),
            fields[BOTTLENECK],
            fields[LINE],
        )
        self._fields = fields
        self._fill()
        self._mark()

    def show(self, preset: Preset | None, draft: Draft, validation: Validation, trial: str | None) -> None:
        """Show a draft, and why it cannot run. `preset`: without its changes; None: it cannot be read. `trial`: the one
        that is changed; None: all are."""
        is_other = (preset, draft, trial) != (self._preset, self._draft, self.trial)
        self._made = validation.preset or (self._made if preset == self._preset else preset)
        self._preset, self._draft, self._reason = preset, draft, validation.reason
        self.trial = trial if self._made and trial in [each.name for each in self._made.trials] else None
        self.border_title = Content(f"Change trial {self.trial}" if self.trial else "Change all trials")
        self.disabled = preset is None
        self.set_class(bool(self._reason), "-refused")
        self.query_one("#reason", Static).update(Content(f"! {self._reason}"))
        if self._fields:
            if is_other:  # the user did not just type it
                self._fill()
            self._mark()

    def action_step(self, by: int) -> None:
        """Go to the next or previous field, from the last to the first: outside of the form, enter starts a run."""
        (self.screen.focus_next if by > 0 else self.screen.focus_previous)("TrialForm *")

    def point_to(self, key: str | None = None) -> None:
        """Focus a field; without a key the wrong one or, if all are right, the first."""
        first = next(field for field in self._fields.values() if field.display)
        (self._fields[key] if key else self._at_fault() or first).answer.focus()

    def _at_fault(self) -> Field | None:
        """The field that the reason names, or the line that takes it."""
        key = drafts.at_fault(self._draft, self._reason)
        return self._fields.get(key, self._fields[LINE]) if self._reason and key else None

    def _fill(self) -> None:
        """Show what the draft says in each field."""
        changes, shown = drafts.own(self._draft.changes, self.trial), self._made if self.trial else self._preset
        for key in COMMON:
            now = as_it_is(shown, key, self.trial) if shown else NOTHING
            if key == BOTTLENECK:
                now = f"none, or e.g. {IN_WORDS[BOTTLENECK]}" if now == NOTHING else f"{now}; type to replace it"
            self._fields[key].show(changes.pop(key, None), now)
        line = self._draft.unread or shlex.join(f"{key}={text}" for key, text in changes.items())
        self._fields[LINE].show(line, "KEY=VALUE, e.g. batch_size=32")

    def _mark(self) -> None:
        """Show which fields mean something, which are changed, and which is wrong."""
        asked = {*COMMON} if self._preset is None else drafts.common(self._preset)
        wrong = self._at_fault()
        for key, field in self._fields.items():
            is_asked = key == LINE or key in asked or field.text is not None
            field.display = is_asked and not (key == REPEATS and self.trial is not None)
            field.mark(wrong=field is wrong)

    def _others(self) -> Sequence[str]:
        trials = self._made.trials if self._made else ()
        return drafts.others([trial for trial in trials if self.trial in (None, trial.name)])

    @on(Input.Changed)
    @on(Select.Changed)
    def _post_changes(self) -> None:
        self._say_meaning()
        common = {key: text for key in COMMON if (text := self._fields[key].text) is not None}
        self._draft = drafts.retyped(self._draft, self.trial, common, self._fields[LINE].text or "")
        self.post_message(self.Changed(self._draft))

    @on(DescendantFocus)
    def _say_meaning(self) -> None:
        """Say what the field with the focus means, or the one that is typed in the line of others."""
        key = next((key for key, field in self._fields.items() if field.has_focus_within), "")
        if key == LINE:
            key = (self._fields[LINE].text or "").rpartition(" ")[2].partition("=")[0]
            known = self._others()
            fits = [name for name in known if name.startswith(key)] or known
            said = about(key) if key in FIELDS else f"KEY=VALUE; → completes. {', '.join(fits)}"
        else:
            said = about(key) if key else ""
        self.query_one("#meaning", Static).update(Content(said))


def _answer(key: str) -> Input | Select[str]:
    """A list of what can be chosen for a field, or a field to type in."""
    options = [] if key in (REPEATS, BOTTLENECK, "operations") else choices(key)
    if key == "launch":  # a task is started by hand; and a command comes from a preset of its own kind
        options = [mode for mode in options if mode not in ("task", COMMAND)]
    if key == "model":
        options = [*OUR_MODELS, *torchvision_models()]
    if options:
        return Choice(((option, option) for option in options), compact=True)
    examples = [f"{at} {'10 Mbit/s' if at == LINK else '10 ms'} on 1" for at in choices("at")]
    suggester = SuggestFromList(["none", *examples], case_sensitive=False) if key == BOTTLENECK else None
    return Input(compact=True, suggester=suggester)
