"""The form that changes a preset before it runs; every change is for all of its trials."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Select, Static

from ddptui.config.launch_modes import COMMAND
from ddptui.config.preset import Preset
from ddptui.config.trial import choices
from ddptui.engines.preflight_gpus import OUR_MODELS
from ddptui.text.units import NOTHING
from ddptui.text.words import printable
from ddptui.tui import draft as drafts
from ddptui.tui.draft import LENGTH, REPEATS, as_it_is, label, length_field
from ddptui.tui.widgets.fields import BottleneckFields, Field

BOTTLENECK = "bottleneck"
LAST = (LENGTH, REPEATS)
ALL = dict.fromkeys((*drafts.OF_TRAINING, *drafts.OF_SEEING, *drafts.OF_MEASURING))  # without duplicates, in order
FIELDS = (*(key for key in ALL if key not in (*LAST, BOTTLENECK)), *LAST)
TYPED = {"world_size", LENGTH, REPEATS, *drafts.LISTS, "root", "max_bytes", "iterations"}


class TrialForm(Vertical):
    """Has a field for each setting that means something to the preset. An empty field changes nothing."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f5", "screen.run", "Run"),
        Binding("ctrl+r", "screen.reset", "Reset"),
        Binding("ctrl+s", "screen.save", "Save as mine"),
        Binding("enter", "app.focus_next", "Next field", show=False),
        Binding("escape", "screen.back", "Back"),
    ]
    DEFAULT_CSS = """
    TrialForm { height: auto; min-height: 7; }
    TrialForm > #fields { layout: grid; grid-size: 2; grid-gutter: 0 2; height: auto; grid-rows: 1; }
    TrialForm > #reason { height: auto; max-height: 3; color: $text-error; display: none; }
    TrialForm.-refused > #reason { display: block; }
    """

    @dataclass
    class Changed(Message):
        """A field was changed. `changes`: of all fields."""

        changes: dict[str, str]

    BORDER_TITLE = "Change"
    BORDER_SUBTITLE = "for all trials, as --set does"
    _preset: Preset | None = None
    _changes: Mapping[str, str] = {}
    _at_fault: str | None = None
    _models: Sequence[str] = ()  # besides our own
    _is_built = False

    def compose(self) -> ComposeResult:
        yield Static(id="reason", markup=False)

    def on_mount(self) -> None:
        self.call_after_refresh(self._build)

    async def _build(self) -> None:
        """Mount the fields after the first frame: they would make it half as long again."""
        fields = Container(*(Field(label(key), _answer(key), id=key) for key in FIELDS), id="fields")
        await self.mount(fields, BottleneckFields(), before="#reason")
        self._is_built = True
        self.offer_models(self._models)
        self._fill()
        self._mark()

    @property
    def changes(self) -> dict[str, str]:
        """The new value of each changed field."""
        if not self._is_built:
            return dict(self._changes)
        texts = {key: text for key, field in self._fields() if (text := field.text) is not None}
        return {key: drafts.listed(text) if key in drafts.LISTS else text for key, text in texts.items()}

    def show(self, preset: Preset | None, changes: dict[str, str]) -> None:
        """Show the changes of a preset. `preset`: without them; None: it cannot be read."""
        self._preset, self._changes = preset, changes
        self.disabled = preset is None
        self._fill()

    def show_reason(self, reason: str, at_fault: str | None) -> None:
        """Mark the changed fields, and show why the preset cannot run. An empty reason: it can."""
        self.set_class(bool(reason), "-refused")
        self.query_one("#reason", Static).update(Content(f"! {printable(reason)}"))
        self._at_fault = at_fault
        self._mark()

    def point_to(self, key: str | None) -> None:
        """Focus a field; None: the first."""
        fields = dict(self._fields())
        target = fields.get(key or "") or next(iter(fields.values()), None)
        if target is not None:  # it is, once the fields are mounted
            (target if isinstance(target, Field) else target.query_one(Field)).answer.focus()

    def offer_models(self, names: Sequence[str]) -> None:
        """Offer these models besides our own."""
        self._models = names
        for field in self.query("#model").results(Field):
            if field.answer.is_mounted:  # else it has no list yet, and `_build` will fill it
                field.offer([*OUR_MODELS, *names])

    @property
    def _asked(self) -> Sequence[str]:
        """The fields that mean something to the preset."""
        return drafts.fields(self._preset) if self._preset else drafts.OF_TRAINING

    @property
    def _length(self) -> str:
        """The command line's name of the field for the length."""
        return length_field(self._preset) if self._preset else "epochs"

    def _fill(self) -> None:
        for field in self.query("#fields > Field, BottleneckFields"):
            field.display = (field.id or BOTTLENECK) in self._asked
        for key, field in self._fields():
            text = self._changes.get(key)
            shown = drafts.unlisted(text) if text is not None and key in drafts.LISTS else text
            field.show(shown, as_it_is(self._preset, key) if self._preset else NOTHING)
        for field in self.query("#length").results(Field):
            field.label = self._length  # shown by the next `_mark`

    def _mark(self) -> None:
        for key, field in self._fields():
            field.mark(wrong=key == self._at_fault)

    @on(Input.Changed)
    @on(Select.Changed)
    def _post_changes(self) -> None:
        if (changes := self.changes) != self._changes:
            self._changes = changes
            self.post_message(self.Changed(changes))

    def _fields(self) -> Iterator[tuple[str, Field | BottleneckFields]]:
        """Return the fields that the preset asks for, by their command-line names; none before they are all mounted."""
        if not self._is_built:
            return
        for field in self.query("#fields > Field").results(Field):
            if field.id in self._asked:
                yield self._length if field.id == LENGTH else field.id or "", field
        for bottleneck in self.query(BottleneckFields):
            if BOTTLENECK in self._asked:
                yield BOTTLENECK, bottleneck


def _answer(key: str) -> Input | Select[str]:
    if key in TYPED:
        return Input(compact=True)
    # Slurm, not the console, starts a task; and a command comes from a preset of its own kind
    modes = [mode for mode in choices("launch") if mode not in ("task", COMMAND)]
    options = {"model": OUR_MODELS, "launch": modes}.get(key) or choices(key)
    return Select.from_values(options, compact=True)
