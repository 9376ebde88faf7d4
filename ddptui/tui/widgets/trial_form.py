"""The form that changes a preset before it runs: all of its trials, or one of them."""

import shlex
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

import msgspec
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal, Vertical
from textual.content import Content
from textual.events import DescendantFocus
from textual.message import Message
from textual.suggester import Suggester, SuggestFromList
from textual.widgets import Button, Input, Select, Static

from ddptui.config.delays import LINK
from ddptui.config.fields import FIELDS, choices, completions
from ddptui.config.launch_modes import COMMAND
from ddptui.config.parser import BOTTLENECK, PresetError
from ddptui.config.preset import Preset
from ddptui.config.values import IN_WORDS
from ddptui.engines.preflight_gpus import OUR_MODELS
from ddptui.text.units import NOTHING
from ddptui.tui import draft as drafts
from ddptui.tui.draft import COMMON, REPEATS, Draft, about, as_it_is
from ddptui.tui.keys import bound

CHANGED, WRONG = "*", "!"
ALL_TRIALS = ""  # the value of the list of trials when all are changed
LINE = "line"  # the id of the line that takes all other fields


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
        self.answer = answer
        self.label = label
        self._as_it_is = ""
        self._marked = label

    def on_mount(self) -> None:
        if isinstance(self.answer, Select):
            self.watch(self.answer, "expanded", self._name_first_choice, init=False)

    def compose(self) -> ComposeResult:
        yield Static(self.label, markup=False)
        yield self.answer

    @property
    def text(self) -> str | None:
        """The answer; None: as in the preset."""
        value = self.answer.value  # of a list without an answer: Select.NULL
        return value.strip() or None if isinstance(value, str) else None

    def show(self, text: str | None, as_it_is: str) -> None:
        """Show an answer without posting that it has changed. `as_it_is`: what applies without one."""
        self._as_it_is = as_it_is
        with self.prevent(Input.Changed, Select.Changed):  # only the user's own changes are posted
            if isinstance(self.answer, Input):
                self.answer.placeholder = as_it_is
                self.answer.value = text or ""
            else:
                self.answer.prompt = as_it_is
                self.answer.value = Select.NULL if text is None else text

    def offer(self, choices: Iterable[str]) -> None:
        """Replace the choices; the answer stays."""
        assert isinstance(self.answer, Select)
        chosen = self.answer.value  # new options reset it
        with self.prevent(Select.Changed):
            self.answer.set_options((choice, choice) for choice in choices)
            self.answer.value = chosen

    def mark(self, *, wrong: bool) -> None:
        """Mark the label of an answer that was changed, or is wrong."""
        changed = self.text is not None
        self.set_class(changed, "-changed")
        self.set_class(wrong, "-wrong")
        sign = WRONG if wrong else CHANGED if changed else " "
        marked = f"{sign} {self.label}"
        if marked != self._marked:  # an update lays the screen out anew
            self._marked = marked
            self.query_one(Static).update(Content(marked))

    def _name_first_choice(self, expanded: bool) -> None:
        assert isinstance(self.answer, Select)
        # An open list may have the preset's value among its other choices, too. A closed one has no room for more.
        self.answer.prompt = f"as in the preset ({self._as_it_is})" if expanded else self._as_it_is


class Choice(Select[str], inherit_bindings=False):
    """A list to choose from, whose arrow keys lead to other fields: enter opens it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter,space", "show_overlay", "Choose", show=False)]

    def __init__(self, options: Iterable[tuple[str, str]], *, allow_blank: bool = True) -> None:
        super().__init__(options, allow_blank=allow_blank, compact=True)


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
        Binding("enter,down", "app.focus_next", "Next field", key_display="↑ ↓"),
        Binding("up", "app.focus_previous", "Previous field", show=False),
        Binding("escape", "screen.back", "Back"),
    ]
    DEFAULT_CSS = """
    TrialForm { height: auto; min-height: 7; }
    TrialForm > #fields { height: auto; }
    TrialForm .fields { layout: grid; grid-size: 2; grid-gutter: 0 2; height: auto; grid-rows: 1; }
    TrialForm #whose { height: 1; }
    TrialForm #whose Field { width: 2fr; }
    TrialForm Button { margin-left: 2; }
    TrialForm > #meaning { height: 2; color: $text-muted; }
    TrialForm > #reason { height: auto; max-height: 3; color: $text-error; display: none; }
    TrialForm.-refused > #reason { display: block; }
    """

    @dataclass
    class Changed(Message):
        """A field was changed, or another trial was chosen."""

        draft: Draft

    BORDER_TITLE = "Change"

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.preset: Preset | None = None  # without the changes
        self._made: Preset | None = None  # with them, or with the last ones that were valid
        self._draft = Draft("")
        self._wrong = ""  # in the line of other fields
        self._at_fault: str | None = None
        self._models: Sequence[str] = ()  # besides our own
        self._names: Sequence[str] = ()  # of the trials that are offered
        self._fields: dict[str, Field] = {}  # by their names in --set; empty until they are mounted

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
        trials = Choice([("all trials", ALL_TRIALS)], allow_blank=False)
        await self.query_one("#fields").mount(
            Horizontal(
                Field("trial", trials, id="trial"),
                Button("+ duplicate", id="duplicate", action="screen.duplicate", compact=True),
                Button("− remove", id="remove", action="screen.remove", compact=True),
                id="whose",
            ),
            Container(*(field for key, field in fields.items() if key not in (BOTTLENECK, LINE)), classes="fields"),
            fields[BOTTLENECK],
            fields[LINE],
        )
        self._fields = fields
        self.offer_models(self._models)
        self._name_trials()
        self._fill()
        self._mark()

    @property
    def trial(self) -> str | None:
        """The trial that is changed; None: all are."""
        return (self.query_one("#trial", Field).text if self._fields else None) or None

    def read(self) -> tuple[Draft, str]:
        """The draft with what the fields say; and what is wrong with the line of other fields, or an empty text. While
        it is wrong, what it said before counts."""
        if not self._fields:
            return self._draft, ""
        trial, wrong = self.trial, ""
        before = drafts.own(self._draft.changes, trial)
        try:
            changes = drafts.read_line(self._fields[LINE].text or "")
        except PresetError as error:
            wrong, changes = str(error), {key: text for key, text in before.items() if key not in COMMON}
        changes |= {key: text for key in COMMON if (text := self._fields[key].text) is not None}
        spelled = {drafts.spell(key, trial) for key in before}
        kept = {key: text for key, text in self._draft.changes.items() if key not in spelled}
        changes = kept | {drafts.spell(key, trial): text for key, text in changes.items()}
        return msgspec.structs.replace(self._draft, changes=changes), wrong

    def show(self, preset: Preset | None, draft: Draft, trial: str | None = None) -> None:
        """Show a draft. `preset`: without its changes; None: it cannot be read. `trial`: the chosen one."""
        self.preset, self._made, self._draft = preset, preset, draft
        self.disabled = preset is None
        if draft.is_changed:
            with suppress(PresetError):
                self._made = drafts.preset(draft)
        if self._fields:
            self._name_trials(trial)
            self._fill()
            self._mark()

    def show_verdict(self, made: Preset | None, reason: str, at_fault: str | None) -> None:
        """Show what the changes make of the preset: its fields, or why it cannot run. `made`: None if it cannot be."""
        self._made = made or self._made
        self.set_class(bool(reason), "-refused")
        self.query_one("#reason", Static).update(Content(f"! {reason}"))
        self._at_fault = at_fault
        if self._fields:
            self._name_trials(self.trial)
            self._mark()

    def point_to(self, key: str | None) -> None:
        """Focus a field, or the line that takes it; None: the first field."""
        if self._fields:  # they are mounted
            first = next(field for field in self._fields.values() if field.display)
            (first if key is None else self._fields.get(key, self._fields[LINE])).answer.focus()

    def show_focus(self, *, has_it: bool) -> None:
        """Show whether a field has the focus. For `:focus-within`, Textual would restyle all fields with every key."""
        self.update_classes({"-focused": has_it}, update=False)
        self.app.stylesheet.apply(self)

    def offer_models(self, names: Sequence[str]) -> None:
        """Offer these models besides our own."""
        self._models = names
        if self._fields:
            self._fields["model"].offer([*OUR_MODELS, *names])

    def _name_trials(self, chosen: str | None = None) -> None:
        """Offer the trials that there are now, and choose one of them, or all."""
        names = [trial.name for trial in self._made.trials] if self._made else []
        answer = self.query_one("#trial Select", Select)
        with answer.prevent(Select.Changed):
            if names != self._names:  # this is called with each key, and a list is slow to fill
                self._names = names
                answer.set_options([("all trials", ALL_TRIALS), *((name, name) for name in names)])
            answer.value = chosen if chosen in names else ALL_TRIALS

    def _fill(self) -> None:
        trial = self.trial
        changes, shown = drafts.own(self._draft.changes, trial), self._made if trial else self.preset
        for key in COMMON:
            now = as_it_is(shown, key, trial) if shown else NOTHING
            if key == BOTTLENECK and now == NOTHING:
                now = f"none, or e.g. {IN_WORDS[BOTTLENECK]}"
            self._fields[key].show(changes.pop(key, None), now)
        line = shlex.join(f"{key}={text}" for key, text in changes.items())
        self._fields[LINE].show(line, "KEY=VALUE, e.g. batch_size=32")

    def _mark(self) -> None:
        """Show which fields mean something, which are changed, and which is wrong."""
        asked = {*COMMON} if self.preset is None else drafts.common(self.preset)
        for key, field in self._fields.items():
            is_asked = key == LINE or key in asked or field.text is not None
            field.display = is_asked and not (key == REPEATS and self.trial is not None)
            is_wrong = key == self._at_fault or (key == LINE and self._at_fault not in (None, *COMMON))
            field.mark(wrong=is_wrong)

    def _others(self) -> Sequence[str]:
        shown = self._made or self.preset
        return drafts.others([trial for trial in shown.trials if self.trial in (None, trial.name)]) if shown else []

    @on(Select.Changed, "#trial Select")
    def _choose_trial(self, event: Select.Changed) -> None:
        event.stop()
        self._fill()
        self._mark()
        self.post_message(self.Changed(self._draft))

    @on(Input.Changed)
    @on(Select.Changed)
    def _post_changes(self) -> None:
        self._say_meaning()
        draft, wrong = self.read()
        if draft != self._draft or wrong != self._wrong:
            self._draft, self._wrong = draft, wrong
            self.post_message(self.Changed(draft))

    @on(DescendantFocus)
    def _say_meaning(self) -> None:
        """Say what the field with the focus means, or the one that is typed in the line of others."""
        of = (
            next((node for node in self.screen.focused.ancestors_with_self if isinstance(node, Field)), None)
            if self.screen.focused
            else None
        )
        said = ""
        if of is not None and of.id == LINE:
            key = (of.text or "").rpartition(" ")[2].partition("=")[0]
            known = self._others()
            fits = [name for name in known if name.startswith(key)]
            said = about(key) if key in FIELDS else f"KEY=VALUE; → completes. {', '.join(fits or known)}"
        elif of is not None and of.id == "trial":
            said = "Which trials to change: all of them, or one. Duplicate makes a copy that you can change."
        elif of is not None:
            said = about(of.id or "")
        self.query_one("#meaning", Static).update(Content(said))


def _answer(key: str) -> Input | Select[str]:
    options = _options(key)
    if options:
        return Choice((option, option) for option in options)
    examples = [f"{at} {'10 Mbit/s' if at == LINK else '10 ms'} on 1" for at in choices("at")]
    suggester = SuggestFromList(["none", *examples], case_sensitive=False) if key == BOTTLENECK else None
    return Input(compact=True, suggester=suggester)


def _options(key: str) -> Iterable[str]:
    """Return what can be chosen for a field; nothing where it is typed."""
    if key == "launch":  # a task is started by hand; and a command comes from a preset of its own kind
        return [mode for mode in choices(key) if mode not in ("task", COMMAND)]
    if key == "model":
        return OUR_MODELS
    return () if key in (REPEATS, BOTTLENECK, "operations") else choices(key)
