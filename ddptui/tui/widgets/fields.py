"""The fields of a form: a line with a label and an answer, and the fields of a bottleneck."""

from collections.abc import Iterable

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Input, Select, Static

from ddptui.config.trial import choices
from ddptui.tui.draft import LINK, NO_BOTTLENECK, bottleneck, bottleneck_fields

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
        self.answer = answer
        self.label = label
        self._as_it_is = ""

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
        self.query_one(Static).update(Content(f"{sign} {self.label}"))

    def _name_first_choice(self, expanded: bool) -> None:
        assert isinstance(self.answer, Select)
        # An open list may have the preset's value among its other choices, too. A closed one has no room for more.
        self.answer.prompt = f"as in the preset ({self._as_it_is})" if expanded else self._as_it_is


NONE, SOME = "none", "put in"
USUAL = ("aggregate", "1", "10")  # site, ranks, ms
FIELDS = ("at", "ranks", "amount")
OF_A_DELAY, OF_A_LINK = "for ms", "Mbit/s"


class BottleneckFields(Vertical):
    """Asks whether there is a bottleneck, and only then where, on which ranks and how much."""

    DEFAULT_CSS = """
    BottleneckFields { height: auto; }
    BottleneckFields > #delay { height: 1; display: none; }
    BottleneckFields.-some > #delay { display: block; }
    #delay > Field > Static { width: auto; padding-right: 1; }
    #delay > Field { margin-left: 2; }
    """

    def compose(self) -> ComposeResult:
        yield Field("bottleneck", Select.from_values([NONE, SOME], compact=True), id="bottleneck")
        sites = Select.from_values(choices("at"), value=USUAL[0], allow_blank=False, compact=True)
        with Horizontal(id="delay"):
            yield Field("at", sites, id="at")
            yield Field("on ranks", Input(USUAL[1], compact=True, select_on_focus=False), id="ranks")
            yield Field(OF_A_DELAY, Input(USUAL[2], compact=True, select_on_focus=False), id="amount")

    @property
    def text(self) -> str | None:
        """Return the value of `bottleneck` for the command line; None: it is not changed."""
        choice = self._field("bottleneck").text
        if choice == SOME:
            return bottleneck(*(self._field(name).text or "" for name in FIELDS))
        return NO_BOTTLENECK if choice == NONE else None

    def show(self, text: str | None, as_it_is: str) -> None:
        """Show a value without posting that it has changed."""
        is_some = text not in (None, NO_BOTTLENECK)
        self._field("bottleneck").show(None if text is None else SOME if is_some else NONE, as_it_is)
        if text is not None and is_some:
            for name, part in zip(FIELDS, bottleneck_fields(text), strict=True):
                self._field(name).show(part, "")

    def mark(self, *, wrong: bool) -> None:
        """Show whether the bottleneck was changed, and whether it is refused."""
        field = self._field("bottleneck")
        field.mark(wrong=wrong)
        self.set_class(field.text == SOME, "-some")
        unit = OF_A_LINK if self._field("at").text == LINK else OF_A_DELAY
        self._field("amount").query_one(Static).update(Content(unit))

    def _field(self, name: str) -> Field:
        return self.query_one(f"#{name}", Field)
