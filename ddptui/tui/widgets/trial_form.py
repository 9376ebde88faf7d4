"""The form that changes a preset before it runs; every change is for all of its trials."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical, VerticalScroll
from textual.content import Content
from textual.events import DescendantFocus
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Select, Static

from ddptui.config.fields import choices, kind
from ddptui.config.launch_modes import COMMAND
from ddptui.config.preset import Preset
from ddptui.engines.preflight_gpus import OUR_MODELS
from ddptui.text.units import NOTHING
from ddptui.tui import draft as drafts
from ddptui.tui.draft import COMMON, OTHERS, REPEATS, about, as_it_is, label, offered
from ddptui.tui.form_lines import KINDS, usual_lines
from ddptui.tui.keys import bound
from ddptui.tui.widgets.fields import Field, InjectedFields, InjectedLine

BOOLEAN = "true or false"


class TrialForm(Vertical):
    """Has a field for each setting that means something to the preset. An empty field changes nothing."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f5", "screen.run", "Run"),
        bound("reset", "screen.reset", "Reset"),
        bound("save", "screen.save", "Save as mine"),
        Binding("enter", "app.focus_next", "Next field", show=False),
        Binding("escape", "screen.back", "Back"),
    ]
    DEFAULT_CSS = """
    TrialForm { height: auto; min-height: 7; }
    TrialForm > #all { height: auto; max-height: 10; scrollbar-size-vertical: 1; }
    TrialForm.-refused > #all { max-height: 8; }
    TrialForm .fields { layout: grid; grid-size: 2; grid-gutter: 0 2; height: auto; grid-rows: 1; }
    TrialForm > #meaning { height: 2; color: $text-muted; }
    TrialForm > #reason { height: auto; max-height: 3; color: $text-error; display: none; }
    TrialForm.-refused > #reason { display: block; }
    """

    @dataclass
    class Changed(Message):
        """A field was changed. `changes`: of all fields."""

        changes: dict[str, str]

    BORDER_TITLE = "Change"
    BORDER_SUBTITLE = "for all trials, as --set does"

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._preset: Preset | None = None  # without the changes
        self._made: Preset | None = None  # with them, or with the last ones that were valid
        self._changes: Mapping[str, str] = {}
        self._at_fault: str | None = None
        self._models: Sequence[str] = ()  # besides our own
        self._fields: dict[str, Field | InjectedFields] = {}  # those that are made, by their names in --set
        self._others: Sequence[str] = OTHERS  # that are not made yet: with them, each key in the list would take longer

    def compose(self) -> ComposeResult:
        yield VerticalScroll(id="all", can_focus=False)
        yield Static(id="meaning", markup=False)
        yield Static(id="reason", markup=False)

    def on_mount(self) -> None:
        self.call_after_refresh(self._add, COMMON)  # they would make the first frame half as long again

    async def _add(self, keys: Sequence[str]) -> None:
        """Mount these fields below the others."""
        fields = {key: _field(key) for key in keys}
        parts: list[Widget] = []
        for is_wide, group in groupby(fields.values(), lambda field: isinstance(field, InjectedFields)):
            members = [*group]
            parts += members if is_wide else [Container(*members, classes="fields")]
        await self.query_one("#all").mount(*parts)
        self._fields |= fields
        if "model" in fields:
            self.offer_models(self._models)
        self._fill(fields)  # no others: what was typed there meanwhile has yet to be noticed
        self._mark()

    @property
    def changes(self) -> dict[str, str]:
        """The new value of each changed field. One that is not made yet has not been changed."""
        texts = {key: field.text for key, field in self._fields.items()}
        words = {key: text for key, text in texts.items() if text is not None}
        return {key: drafts.listed(key, text) if drafts.is_typed_list(key) else text for key, text in words.items()}

    def show(self, preset: Preset | None, changes: dict[str, str]) -> None:
        """Show the changes of a preset. `preset`: without them; None: it cannot be read."""
        self._preset, self._made, self._changes = preset, preset, changes
        self.disabled = preset is None
        self._fill(self._fields)

    def show_verdict(self, made: Preset | None, reason: str, at_fault: str | None) -> None:
        """Show what the changes make of the preset: its fields, or why it cannot run. `made`: None if it cannot be."""
        self._made = made or self._made
        self.set_class(bool(reason), "-refused")
        self.query_one("#reason", Static).update(Content(f"! {reason}"))
        self._at_fault = at_fault
        self._mark()

    def point_to(self, key: str | None) -> None:
        """Focus a field; None: the first."""
        target = self._fields.get(key or "") or next((field for field in self._fields.values() if field.display), None)
        if target is not None:  # it is, once the fields are mounted
            target.point_to()

    def show_focus(self, *, has_it: bool) -> None:
        """Show whether a field has the focus. For `:focus-within`, Textual would restyle all fields with every key."""
        self.update_classes({"-focused": has_it}, update=False)
        self.app.stylesheet.apply(self)

    def offer_models(self, names: Sequence[str]) -> None:
        """Offer these models besides our own."""
        self._models = names
        field = self._fields.get("model")
        if isinstance(field, Field):
            field.offer([*OUR_MODELS, *names])

    def _fill(self, fields: Mapping[str, Field | InjectedFields]) -> None:
        for key, field in fields.items():
            text = self._changes.get(key)
            now = as_it_is(self._preset, key) if self._preset else NOTHING
            if isinstance(field, InjectedFields):
                field.show(text, now, usual_lines(key, self._preset))
            else:
                field.show(drafts.unlisted(key, text) if text and drafts.is_typed_list(key) else text, now)

    def _mark(self) -> None:
        """Show which fields mean something, which are changed, and which is wrong."""
        asked = {*COMMON} if self._preset is None else offered(self._preset, self._made or self._preset)
        for key, field in self._fields.items():
            field.display = key in asked or key in self._changes
            field.mark(wrong=key == self._at_fault)

    @on(Input.Changed)
    @on(Select.Changed)
    @on(InjectedFields.Changed)
    def _post_changes(self) -> None:
        if (changes := self.changes) != self._changes:
            self._changes = changes
            self.post_message(self.Changed(changes))

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        """Say what the field with the focus means. The first time, add the fields that are not common."""
        others, self._others = self._others, ()
        if others:
            self.call_next(self._add, others)
        ways = [_meaning(node) for node in event.widget.ancestors_with_self if isinstance(node, Widget)]
        self.query_one("#meaning", Static).update(Content(next(filter(None, ways), "")))


def _meaning(node: Widget) -> str:
    """Return what a widget means to the user; empty if another one around it says it."""
    if not isinstance(node, Field):
        return ""
    for line in node.ancestors:
        if isinstance(line, InjectedLine):
            return line.about(node)
    return about(node.id or "")


def _field(key: str) -> Field | InjectedFields:
    return InjectedFields(key) if key in KINDS else Field(label(key), _answer(key), id=key)


def _answer(key: str) -> Input | Select[str]:
    options = _options(key)
    return Select.from_values(options, compact=True) if options else Input(compact=True)


def _options(key: str) -> Iterable[str]:
    """Return what can be chosen for a field; nothing where it is typed."""
    if key == REPEATS or drafts.is_typed_list(key):
        return ()
    if key == "launch":  # a task is started by hand; and a command comes from a preset of its own kind
        return [mode for mode in choices(key) if mode not in ("task", COMMAND)]
    if key == "model":
        return OUR_MODELS
    return ("true", "false") if kind(key) == BOOLEAN else choices(key)
