"""The fields of a form: a line with a label and an answer, and the fields of bottlenecks and of faults."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.widget import AwaitMount
from textual.widgets import Button, Input, Select, Static

from ddptui.config.delays import LINK
from ddptui.config.fields import choices
from ddptui.tui.form_lines import KINDS, NOTHING_IN, REST, Line, lines, value

CHANGED, WRONG = "*", "!"


class Field(Horizontal):
    """A line with a label and an answer. Empty, it shows the preset's value, which then stays."""

    DEFAULT_CSS = """
    Field { height: 1; width: 1fr; }
    Field > Static { width: 16; color: $text-muted; }
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

    def point_to(self) -> None:
        """Focus the answer."""
        self.answer.focus()

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


NONE, SOME = "none", "put in"


class InjectedLine(Vertical):
    """The fields of one bottleneck, or of one fault, with buttons for another one and for taking this one out."""

    DEFAULT_CSS = """
    InjectedLine { height: auto; }
    InjectedLine > Horizontal { height: 1; padding-left: 2; }
    InjectedLine Field > Static { width: auto; padding-right: 1; }
    InjectedLine Field { margin-right: 2; }
    InjectedLine Button { margin-right: 1; }
    """

    def __init__(self, field: str, line: Line) -> None:
        super().__init__()
        self._kind, self._first = KINDS[field], line
        self._fields = {key: _part(key, label, line[key]) for key, label in self._kind.labels.items()}

    def compose(self) -> ComposeResult:
        with Horizontal():
            yield from (field for key, field in self._fields.items() if key != REST)
        with Horizontal():
            yield from (field for key, field in self._fields.items() if key == REST)
            yield Button("+ another", id="another", compact=True)
            yield Button("− remove", id="remove", compact=True)

    def on_mount(self) -> None:
        self._name_amount()

    @property
    def line(self) -> Line:
        """The texts in the fields."""
        # a Select has no value until it is mounted
        first = {key: self._first[key] for key, field in self._fields.items() if isinstance(field.answer, Select)}
        return {key: field.text or first.get(key, "") for key, field in self._fields.items()}

    def point_to(self) -> None:
        """Focus the first field."""
        next(iter(self._fields.values())).point_to()

    def about(self, field: Field) -> str:
        """Return a sentence about one of the fields."""
        return self._kind.abouts[field.id or ""]

    @on(Select.Changed, "#at Select")
    def _name_amount(self) -> None:
        if "at" in self._fields and self.is_mounted:
            unit = LINK_UNIT if self._fields["at"].text == LINK else self._kind.labels["amount"]
            self._fields["amount"].query_one(Static).update(Content(unit))


LINK_UNIT = "Mbit/s"


class InjectedFields(Vertical):
    """Asks whether there are bottlenecks, or faults, and only then which: a line each."""

    DEFAULT_CSS = """
    InjectedFields { height: auto; }
    InjectedFields > #lines { height: auto; display: none; }
    InjectedFields.-some > #lines { display: block; }
    """

    @dataclass
    class Changed(Message):
        """A line was added or removed."""

    def __init__(self, key: str) -> None:
        super().__init__()
        self._key = key
        self._lines: list[InjectedLine] = []  # queries also find lines that are being removed
        self._usual: list[Line] = [KINDS[key].usual]
        self._choice = Field(key, Select.from_values([NONE, SOME], compact=True), id=key)

    def compose(self) -> ComposeResult:
        yield self._choice
        yield Vertical(id="lines")

    @property
    def text(self) -> str | None:
        """The value for the command line; None: it is not changed."""
        choice = self._choice.text
        if choice == SOME:
            return value(self._key, [line.line for line in self._lines] or self._usual)
        return NOTHING_IN if choice == NONE else None

    def show(self, text: str | None, as_it_is: str, usual: list[Line]) -> None:
        """Show a value without posting that it has changed. `usual`: the lines to start with once the user chooses to
        have some."""
        self._usual = usual
        is_some = text not in (None, NOTHING_IN)
        self._choice.show(None if text is None else SOME if is_some else NONE, as_it_is)
        self._replace_lines(lines(self._key, text or NOTHING_IN) or usual if is_some else [])
        self.set_class(is_some, "-some")

    def mark(self, *, wrong: bool) -> None:
        """Mark the label of a value that was changed, or is wrong."""
        self._choice.mark(wrong=wrong)

    def point_to(self) -> None:
        """Focus the first field."""
        self._choice.point_to()

    @on(Select.Changed)
    async def _show_lines(self, event: Select.Changed) -> None:
        if event.select is self._choice.answer:
            is_some = self._choice.text == SOME
            self.set_class(is_some, "-some")
            if is_some and not self._lines:
                await self._replace_lines(self._usual)
            if is_some and self._lines:  # another preset may be shown by now
                self.call_after_refresh(self._lines[-1].scroll_visible, animate=False)

    def _replace_lines(self, wanted: Sequence[Line]) -> AwaitMount:
        if [line.line for line in self._lines] == [*wanted]:
            return self.query_one("#lines").mount()
        for line in self._lines:
            line.remove()
        self._lines = [InjectedLine(self._key, line) for line in wanted]
        return self.query_one("#lines").mount(*self._lines)

    def _place_of(self, pressed: Button.Pressed) -> int | None:
        """Return the place of the line in which a button was pressed; None if the line has been removed."""
        pressed.stop()
        return next((at for at, line in enumerate(self._lines) if line in pressed.button.ancestors), None)

    @on(Button.Pressed, "#another")
    async def _add(self, event: Button.Pressed) -> None:
        if (place := self._place_of(event)) is not None:
            before = self._lines[place]
            line = InjectedLine(self._key, before.line)
            self._lines.insert(place + 1, line)
            await self.query_one("#lines").mount(line, after=before)
            line.point_to()
            self.post_message(self.Changed())

    @on(Button.Pressed, "#remove")
    async def _remove(self, event: Button.Pressed) -> None:
        if (place := self._place_of(event)) is None:  # a second click
            return
        line = self._lines.pop(place)
        if self._lines:
            self._lines[max(0, place - 1)].point_to()
            self.post_message(self.Changed())
        else:  # none is left
            self._choice.answer.focus()
            self._choice.answer.value = NONE
        await line.remove()


def _part(key: str, label: str, text: str) -> Field:
    options = choices(key) if key in ("at", "kind") else ()
    answer: Input | Select[str] = (
        Select.from_values(options, value=text, allow_blank=False, compact=True)
        if options
        else Input(text, compact=True, select_on_focus=False)
    )
    return Field(label, answer, id=key)
