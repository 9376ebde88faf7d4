"""Delays injected while a trial runs: what is allowed, and the dialog that asks for them."""

from collections.abc import Sequence
from typing import ClassVar

import msgspec
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Button, Input, Label, Select, Static

from ddptui.config.trial import Bottleneck, Trial, TrialError, choices
from ddptui.config.trial_text import describe_bottleneck, parse_assignment
from ddptui.config.trial_values import make_trial
from ddptui.tui.injected import LINK, REST, value
from ddptui.tui.screens.dialogs import Dialog

TOO_LATE = "start"  # a running rank has already started
USUAL_MS = "20"
LONGEST_MS = 60_000  # torch waits longer than this for a late rank; its timeout is raised only for a preset's delays


def sites() -> list[str]:
    """Return where a delay can be injected into a running rank."""
    return [site for site in choices("at") if site not in (TOO_LATE, LINK)]


def can_still_come(bottlenecks: Sequence[Bottleneck]) -> tuple[Bottleneck, ...]:
    """Return the delays that a running rank has yet to meet. Slow links are no delays: they stay as they are."""
    return tuple(delay for delay in bottlenecks if delay.at in sites())


def with_delay(
    trial: Trial, delays: Sequence[Bottleneck], at: str, ranks: str, sleep_ms: str
) -> tuple[Bottleneck, ...]:
    """Return these delays and a new one, which replaces one at the same site on the same ranks. Raises TrialError, as
    the preset loader would: one line, without the field's path."""
    if at == LINK:
        raise TrialError("", "at: the links are made before the ranks start; a slow one goes into the preset")
    line = {"at": at, "ranks": ranks, "amount": sleep_ms, REST: ""}
    _, wanted = parse_assignment(f"bottleneck={value('bottleneck', [line])}")
    try:
        [new] = make_trial({**msgspec.to_builtins(trial), "bottleneck": wanted}).bottleneck
    except TrialError as error:
        raise TrialError("", f"{error.key.rpartition('.')[2]}: {error.why}") from None
    if new.sleep_ms > LONGEST_MS:
        raise TrialError("", f"sleep_ms: at most {LONGEST_MS:,} while it runs; a longer delay goes into the preset")
    others = [delay for delay in delays if (delay.at, set(delay.ranks)) != (new.at, set(new.ranks))]
    return (*others, new)


class Inject(Dialog[tuple[Bottleneck, ...] | None]):
    """Dismissed with all delays that the ranks shall have from now on, or with None to change nothing."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+o", "dismiss(())", "Remove all", show=False),
        Binding("f5", "inject", "Inject", show=False),
    ]

    def __init__(self, trial: Trial, delays: tuple[Bottleneck, ...], ranks: int) -> None:
        super().__init__()
        self._ranks = ranks
        self._trial = trial
        self._delays = delays

    def compose(self) -> ComposeResult:
        possible = [site for site in sites() if not (self._trial.launch == "dp" and site == "backward")]
        with Vertical(classes="dialog"):
            yield Static(f"In trial {self._trial.name}, from the next step on", id="title", markup=False)
            yield Static(f"now: {describe_bottleneck(self._delays)}", id="delays", markup=False)
            last_rank = str(self._ranks - 1)
            for label, answer in (
                ("delay, ms", Input(USUAL_MS, id="ms", compact=True)),
                ("on ranks", Input(last_rank, id="ranks", compact=True, placeholder="1, or 0,2")),
                ("where", Select.from_values(possible, value=possible[-1], allow_blank=False, compact=True)),
            ):
                yield Horizontal(Label(label), answer, classes="field")
            yield Static(id="refusal", markup=False)
            with Horizontal(classes="buttons"):
                yield Button("Cancel (esc)", id="leave", action="screen.dismiss(None)", compact=True)
                remove = Button("Remove all (ctrl+o)", id="out", action="screen.dismiss(())", compact=True)
                remove.disabled = not self._delays
                yield remove
                yield Button("Inject (enter)", id="in", action="screen.inject", variant="primary", compact=True)

    @on(Input.Submitted)
    def action_inject(self) -> None:
        at = str(self.query_one(Select).value)
        ranks, sleep_ms = (self.query_one(f"#{name}", Input).value for name in ("ranks", "ms"))
        try:
            self.dismiss(with_delay(self._trial, self._delays, at, ranks, sleep_ms))
        except TrialError as error:
            self.query_one("#refusal", Static).update(Content(str(error)))
