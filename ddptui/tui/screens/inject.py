"""Put a delay into a trial that runs, or take all of them out: from the next step on."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Label, Select, Static

from ddptui.config.trial import Bottleneck, Trial, TrialError
from ddptui.config.trial_text import describe_bottleneck
from ddptui.tui.injection import sites, with_delay

USUAL_MS = "20"


class Inject(ModalScreen[tuple[Bottleneck, ...] | None]):
    """Dismissed with all delays that are wanted from now on; None: leave it as it is."""

    CSS_PATH = ["modal.tcss", "inject.tcss"]  # noqa: RUF012
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Leave it", show=False),
        Binding("ctrl+o", "take_out", "Take all out", show=False),
        Binding("f5", "put_in", "Put in", show=False),
    ]

    def __init__(self, trial: Trial, there: tuple[Bottleneck, ...]) -> None:
        super().__init__()
        self._trial = trial
        self._there = there

    def compose(self) -> ComposeResult:
        possible = [site for site in sites() if not (self._trial.launch == "dp" and site == "backward")]
        with Vertical(classes="dialog"):
            yield Static(f"In trial «{self._trial.name}», from the next step on", id="title", markup=False)
            yield Static(f"now: {describe_bottleneck(self._there)}", id="there", markup=False)
            with Horizontal(classes="field"):
                yield Label("delay, ms")
                yield Input(USUAL_MS, id="ms", compact=True)
            with Horizontal(classes="field"):
                yield Label("on ranks")
                yield Input(str(self._trial.world_size - 1), id="ranks", compact=True, placeholder="1, or 0,2")
            with Horizontal(classes="field"):
                yield Label("where")
                yield Select([(site, site) for site in possible], value=possible[-1], allow_blank=False, compact=True)
            yield Static(id="refusal", markup=False)
            with Horizontal(classes="buttons"):
                yield Button("Leave it (esc)", id="leave", compact=True)
                yield Button("Take all out (ctrl+o)", id="out", compact=True, disabled=not self._there)
                yield Button("Put in (enter)", id="in", variant="primary", compact=True)

    def on_mount(self) -> None:
        self.query_one("#ms", Input).focus()

    def on_input_submitted(self) -> None:
        self.action_put_in()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        match event.button.id:
            case "in":
                self.action_put_in()
            case "out":
                self.action_take_out()
            case _:
                self.dismiss(None)

    def action_put_in(self) -> None:
        at = str(self.query_one(Select).value)
        ranks, sleep_ms = (self.query_one(f"#{name}", Input).value for name in ("ranks", "ms"))
        try:
            self.dismiss(with_delay(self._trial, self._there, at, ranks, sleep_ms))
        except TrialError as error:
            self.query_one("#refusal", Static).update(Content(str(error)))

    def action_take_out(self) -> None:
        self.dismiss(())
