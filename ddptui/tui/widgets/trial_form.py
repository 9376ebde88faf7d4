"""The form that changes a preset before it runs; every change is for all of its trials."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
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

from ddptui.config.fields import kind
from ddptui.config.launch_modes import COMMAND
from ddptui.config.preset import Preset
from ddptui.config.trial import choices
from ddptui.engines.preflight_gpus import OUR_MODELS
from ddptui.text.units import NOTHING
from ddptui.tui import draft as drafts
from ddptui.tui.draft import as_it_is
from ddptui.tui.form_lines import KINDS, usual_lines
from ddptui.tui.groups import COMMON, GROUPS, ORDER, REPEATS, about, common, group_of, label, meaningful
from ddptui.tui.keys import bound
from ddptui.tui.widgets.fields import CHANGED, WRONG, Field, InjectedFields, InjectedLine

FOLDED, UNFOLDED = "▸", "▾"
BOOLEAN = "true or false"


class GroupTitle(Static, can_focus=True):
    """The title of a group of fields, which folds and unfolds it. Marked where a field of the group is changed."""

    ALLOW_SELECT = False
    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter,space", "unfold", "Unfold, or fold")]
    DEFAULT_CSS = """
    GroupTitle { height: 1; color: $text-muted; text-wrap: nowrap; }
    GroupTitle:hover { pointer: pointer; text-style: underline; }
    GroupTitle:focus { text-style: reverse; }
    GroupTitle.-changed { color: $text-accent; text-style: bold; }
    GroupTitle.-wrong { color: $text-error; text-style: bold; }
    GroupTitle.-changed:focus, GroupTitle.-wrong:focus { text-style: bold reverse; }
    """

    @dataclass
    class Toggled(Message):
        """The group is to be unfolded, or folded."""

        group: str

    def __init__(self, group: str) -> None:
        super().__init__(f"{FOLDED} {group}", markup=False)
        self.group = group

    def show(self, *, unfolded: bool, changed: bool, wrong: bool) -> None:
        """Show how the group stands."""
        self.set_class(changed, "-changed")
        self.set_class(wrong, "-wrong")
        sign = f" {WRONG}" if wrong else f" {CHANGED}" if changed else ""
        self.update(Content(f"{UNFOLDED if unfolded else FOLDED} {self.group}{sign}"), layout=False)

    def action_unfold(self) -> None:
        self.post_message(self.Toggled(self.group))

    def on_click(self) -> None:
        self.action_unfold()


class Group(Vertical):
    """The fields of a group below its title; they are made when it is first unfolded."""

    DEFAULT_CSS = """
    Group { height: auto; display: none; }
    Group > .heading { height: 1; color: $text-muted; text-style: bold; }
    Group .fields > Field > Static { width: 16; }
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        self.group = name


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
    TrialForm #titles { layout: grid; grid-size: 4; grid-gutter: 0 1; height: auto; grid-rows: 1; }
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
        self._unfolded: set[str] = set()

    def compose(self) -> ComposeResult:
        yield Static(id="meaning", markup=False)
        yield Static(id="reason", markup=False)

    def on_mount(self) -> None:
        self.call_after_refresh(self._build)

    async def _build(self) -> None:
        """Mount the common fields after the first frame: they would make it half as long again."""
        fields = {key: _field(key) for key in COMMON}
        below = [field for field in fields.values() if isinstance(field, InjectedFields)]
        grid = Container(*(field for field in fields.values() if field not in below), id="fields", classes="fields")
        titles = Container(*map(GroupTitle, GROUPS), id="titles")
        everything = VerticalScroll(grid, *below, titles, *map(Group, GROUPS), id="all", can_focus=False)
        await self.mount(everything, before="#meaning")
        self._take_in(fields)

    def _take_in(self, fields: Mapping[str, Field | InjectedFields]) -> None:
        """Fill fields that have been mounted."""
        self._fields |= fields
        self.offer_models(self._models)
        self._fill(fields)
        self._mark()

    @property
    def changes(self) -> dict[str, str]:
        """The new value of each changed field. One that is not made yet has not been changed."""
        texts = {key: self._fields[key].text for key in ORDER if key in self._fields}
        return {key: _value(key, text) for key, text in texts.items() if text is not None}

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
        group = group_of(key) if key else None
        if key and group and group not in self._unfolded:
            self.call_next(self._unfold, group, key)
        else:
            self._focus(key)

    def _focus(self, key: str | None) -> None:
        target = self._fields.get(key or "") or next((field for field in self._fields.values() if field.display), None)
        if target is not None:  # it is, once the fields are mounted
            target.point_to()

    def offer_models(self, names: Sequence[str]) -> None:
        """Offer these models besides our own."""
        self._models = names
        field = self._fields.get("model")
        if isinstance(field, Field):
            field.offer([*OUR_MODELS, *names])

    @on(GroupTitle.Toggled)
    async def _toggle(self, event: GroupTitle.Toggled) -> None:
        if event.group in self._unfolded:
            self._unfolded.remove(event.group)
            self._mark()
        else:
            await self._unfold(event.group)

    async def _unfold(self, name: str, key: str | None = None) -> None:
        """Show a group, and focus one of its fields; None: the first."""
        group = next(group for group in self.query(Group) if group.group == name)
        if not group.children:
            fields = {each: _field(each) for each in GROUPS[name]}
            below = [field for field in fields.values() if isinstance(field, InjectedFields)]
            grid = Container(*(field for field in fields.values() if field not in below), classes="fields")
            await group.mount(Static(name, classes="heading", markup=False), grid, *below)
            self._take_in(fields)
        self._unfolded.add(name)
        self._mark()
        asked = self._asked()
        self._focus(key or next((each for each in GROUPS[name] if each in asked), None))
        self.call_after_refresh(self._scroll_to_focus)  # until then it is not known where the group's fields are

    def _scroll_to_focus(self) -> None:
        focused = self.screen.focused
        if focused is not None and self in focused.ancestors:
            focused.scroll_visible(animate=False)

    def _asked(self) -> set[str]:
        """The fields that mean something, or are changed all the same."""
        if self._preset is None:
            return {*COMMON}
        others = meaningful(self._made or self._preset) - {*COMMON}
        return common(self._preset) | others | self._changes.keys()

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
        asked = self._asked()
        for key, field in self._fields.items():
            field.display = key in asked
            field.mark(wrong=key == self._at_fault)
        shown = {name for name, keys in GROUPS.items() if self._preset and asked & {*keys}}
        for title in self.query(GroupTitle):
            keys = GROUPS[title.group]
            title.display = title.group in shown
            changed = any(key in self._changes for key in keys)
            title.show(unfolded=title.group in self._unfolded, changed=changed, wrong=self._at_fault in keys)
        for group in self.query(Group):
            group.display = group.group in self._unfolded & shown

    @on(Input.Changed)
    @on(Select.Changed)
    @on(InjectedFields.Changed)
    def _post_changes(self) -> None:
        if (changes := self.changes) != self._changes:
            self._changes = changes
            self.post_message(self.Changed(changes))

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        """Say what the field with the focus means."""
        ways = [_meaning(node) for node in event.widget.ancestors_with_self if isinstance(node, Widget)]
        self.query_one("#meaning", Static).update(Content(next(filter(None, ways), "")))


def _meaning(node: Widget) -> str:
    """Return what a widget means to the user; empty if another one around it says it."""
    if isinstance(node, GroupTitle):
        return f"{node.group}: {', '.join(map(label, GROUPS[node.group]))}"
    if not isinstance(node, Field):
        return ""
    for line in node.ancestors:
        if isinstance(line, InjectedLine):
            return line.about(node)
    return about(node.id or "")


def _value(key: str, text: str) -> str:
    return drafts.listed(key, text) if drafts.is_typed_list(key) else text


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
