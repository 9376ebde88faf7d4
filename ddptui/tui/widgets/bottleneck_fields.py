"""The fields of a form for one delay, or one slow link."""

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Input, Select, Static

from ddptui.config.trial import choices
from ddptui.tui.draft import LINK, NO_BOTTLENECK, bottleneck, bottleneck_fields
from ddptui.tui.widgets.field import Field

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
