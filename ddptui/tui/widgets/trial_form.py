"""What can be changed of a preset's trials before they are run; every change is for all of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Select, Static

from ddptui.draft import REPEATS, Draft, as_it_is, length_field
from ddptui.failure import printable
from ddptui.preflight import OUR_MODELS
from ddptui.preset import Preset, choices
from ddptui.tui.widgets.bottleneck_fields import BottleneckFields
from ddptui.tui.widgets.field import Field

LABELS = {
    "launch": "launch",
    "world_size": "ranks",
    "strategy": "strategy",
    "average": "average",
    "model": "model",
    "dataset": "data",
    "length": "",  # epochs or steps, as the preset counts
    REPEATS: "repeats",
}
TYPED = {"world_size", "length", REPEATS}


class TrialForm(Vertical):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f5", "screen.run", "Run"),
        Binding("ctrl+r", "screen.reset", "Reset"),
        Binding("ctrl+s", "screen.save", "Save as mine"),
        Binding("enter", "app.focus_next", "Next field", show=False),
        Binding("escape", "screen.back", "Back"),
    ]
    DEFAULT_CSS = """
    TrialForm { height: auto; }
    TrialForm > #fields { layout: grid; grid-size: 2; grid-gutter: 0 2; height: auto; grid-rows: 1; }
    TrialForm > #reason { height: auto; max-height: 3; color: $text-error; display: none; }
    TrialForm.-refused > #reason { display: block; }
    """

    @dataclass
    class Changed(Message):
        """Somebody has changed something: all changes that there are now."""

        changes: dict[str, str]

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id, classes="pane")
        self.border_title = "Change"
        self.border_subtitle = "for all trials, as --set does"
        self._length = "epochs"
        self._changes: dict[str, str] = {}

    def compose(self) -> ComposeResult:
        with Container(id="fields"):
            for key, label in LABELS.items():
                yield Field(label, _answer(key), id=key)
        yield BottleneckFields()
        yield Static(id="reason", markup=False)

    def show(self, preset: Preset, draft: Draft) -> None:
        """`preset`: as it is without the draft's changes."""
        self._length, self._changes = length_field(preset), draft.changes
        self.query_one("#length", Field).rename(self._length)
        for key, field in self._fields():
            field.show(draft.changes.get(key), as_it_is(preset, key))

    def judge(self, reason: str, at_fault: str | None) -> None:
        """Mark what was changed, and say why it cannot be; empty: it can."""
        self.set_class(bool(reason), "-refused")
        self.query_one("#reason", Static).update(Content(f"! {printable(reason)}"))
        for key, field in self._fields():
            field.mark(wrong=key == at_fault)

    def point_to(self, key: str | None) -> None:
        """Go to a field; none: to the first."""
        fields = dict(self._fields())
        target = fields.get(key or "", fields["launch"])
        (target if isinstance(target, Field) else target.query_one(Field)).answer.focus()

    def offer_models(self, names: Sequence[str]) -> None:
        """These besides our own."""
        field = self.query_one("#model", Field)
        chosen = field.text
        assert isinstance(field.answer, Select)
        with self.prevent(Select.Changed):
            field.answer.set_options((name, name) for name in [*OUR_MODELS, *names])
            field.answer.value = Select.NULL if chosen is None else chosen

    @on(Input.Changed)
    @on(Select.Changed)
    def _tell(self, event: Input.Changed | Select.Changed) -> None:
        event.stop()
        changes = {key: text for key, field in self._fields() if (text := field.text) is not None}
        if changes != self._changes:
            self._changes = changes
            self.post_message(self.Changed(changes))

    def _fields(self) -> Iterator[tuple[str, Field | BottleneckFields]]:
        """By the names that they have on the command line."""
        for key in LABELS:
            yield self._length if key == "length" else key, self.query_one(f"#{key}", Field)
        yield "bottleneck", self.query_one(BottleneckFields)


def _answer(key: str) -> Input | Select[str]:
    if key in TYPED:
        return Input(compact=True)
    return Select.from_values(OUR_MODELS if key == "model" else choices(key), compact=True)
