"""The dialog that injects a delay into a running trial, or removes all of them, from the next step on."""

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
    """Dismissed with all delays that the ranks shall have from now on, or with None to change nothing."""

    CSS_PATH = ["modal.tcss", "inject.tcss"]  # noqa: RUF012
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Cancel", show=False),
        Binding("ctrl+o", "remove_all", "Remove all", show=False),
        Binding("f5", "inject", "Inject", show=False),
    ]

    def __init__(self, trial: Trial, delays: tuple[Bottleneck, ...]) -> None:
        super().__init__()
        self._trial = trial
        self._delays = delays

    def compose(self) -> ComposeResult:
        possible = [site for site in sites() if not (self._trial.launch == "dp" and site == "backward")]
        with Vertical(classes="dialog"):
            yield Static(f"In trial «{self._trial.name}», from the next step on", id="title", markup=False)
            yield Static(f"now: {describe_bottleneck(self._delays)}", id="delays", markup=False)
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
                yield Button("Cancel (esc)", id="leave", compact=True)
                yield Button("Remove all (ctrl+o)", id="out", compact=True, disabled=not self._delays)
                yield Button("Inject (enter)", id="in", variant="primary", compact=True)

    def on_mount(self) -> None:
        self.query_one("#ms", Input).focus()

    def on_input_submitted(self) -> None:
        self.action_inject()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        match event.button.id:
            case "in":
                self.action_inject()
            case "out":
                self.action_remove_all()
            case _:
                self.dismiss(None)

    def action_inject(self) -> None:
        at = str(self.query_one(Select).value)
        ranks, sleep_ms = (self.query_one(f"#{name}", Input).value for name in ("ranks", "ms"))
        try:
            self.dismiss(with_delay(self._trial, self._delays, at, ranks, sleep_ms))
        except TrialError as error:
            self.query_one("#refusal", Static).update(Content(str(error)))

    def action_remove_all(self) -> None:
        self.dismiss(())
