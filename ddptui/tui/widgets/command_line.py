"""The command lines: the one that runs the draft without the console, and the one that starts a trial."""

import shlex
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from ddptui.config.trial import Trial
from ddptui.engines import command
from ddptui.host.machine import available_cores
from ddptui.text.printable import printable
from ddptui.tui.draft import Draft, command_line
from ddptui.tui.widgets.keys import SCROLL_KEYS


class CommandLine(VerticalScroll):
    """Shows both commands; the screen copies the first."""

    BINDINGS: ClassVar[list[BindingType]] = [*SCROLL_KEYS]

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id, classes="pane")
        self.border_title = "Command"
        self.border_subtitle = "c copies the first"

    def compose(self) -> ComposeResult:
        yield Static(markup=False)

    def show(self, draft: Draft, trial: Trial | None) -> None:
        """Show the commands. `trial`: the one under the cursor, if it can start."""
        parts: list[Content | str | tuple[str, str]] = [(printable(command_line(draft)), "bold")]
        if trial is not None:
            parts += ["\n", (f"trial {printable(trial.name)}: ", "dim"), printable(_by_itself(trial))]
        self.query_one(Static).update(Content.assemble(*parts))


def _by_itself(trial: Trial) -> str:
    """Return the exact command, with the variables that it needs."""
    variables = command.environment(trial, available_cores()).items()
    return " ".join(
        [*(f"{name}={shlex.quote(value)}" for name, value in variables), shlex.join(command.command(trial))]
    )
