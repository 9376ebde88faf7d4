"""Scrollable panes of text: about a preset, and the command lines."""

import asyncio
import shlex
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widget import MountError
from textual.widgets import Static

from ddptui.config.trial import Trial
from ddptui.engines import base
from ddptui.host.machine import available_cores
from ddptui.tui.draft import Draft, command_line
from ddptui.tui.keys import name_of
from ddptui.tui.widgets.lists import SCROLL_KEYS

if TYPE_CHECKING:
    from textual.widgets import Markdown

REST_S = 0.06  # laying out Markdown takes longer than a frame, so wait until the cursor rests on a preset


class About(VerticalScroll):
    """Shows a preset's title and text."""

    BINDINGS: ClassVar[list[BindingType]] = SCROLL_KEYS
    DEFAULT_CSS = "About Markdown { padding: 0; }"
    _text: "Markdown | None" = None

    def show(self, title: str, text: str) -> None:
        """Show a title, and a text in Markdown."""
        self.border_title = Content(title)
        self.scroll_home(animate=False)
        self._lay_out(text)

    @work(exclusive=True)  # the next preset's text cancels this one
    async def _lay_out(self, text: str) -> None:
        from textual.widgets import Markdown  # imported late, so that the first screen appears sooner

        await asyncio.sleep(REST_S)
        with suppress(MountError):  # the console is closing
            if self._text is None:
                self._text = Markdown(open_links=False)  # presets may come from strangers
                await self.mount(self._text)
            # Shielded, since canceling an update also cancels the tasks of its widgets, for which the screen waits.
            await asyncio.shield(self._text.update(text))


class TextPane(VerticalScroll):
    """The base of panes with plain text."""

    BINDINGS: ClassVar[list[BindingType]] = SCROLL_KEYS

    def compose(self) -> ComposeResult:
        yield Static(markup=False)


class CommandLine(TextPane):
    """Shows the command that runs the draft without the console; or the command of the chosen trial's ranks, with its
    environment."""

    BORDER_TITLE = "Command"
    _shown: tuple[Draft, Trial | None] | None = None
    _of_trial = False

    def turn(self) -> None:
        """Switch between the command of the draft and that of the chosen trial."""
        self._of_trial = not self._of_trial
        if self._shown is not None:
            self.show(*self._shown)

    def show(self, draft: Draft, trial: Trial | None) -> None:
        """Show the command. `trial`: the trial under the cursor, if it can start."""
        self._shown = draft, trial
        copy, turn = (name_of(key, self.app) for key in ("copy", "command"))
        title, keys, shown = "Command", f"{copy}: copy · {turn}: of the trial, with environment", command_line(draft)
        if self._of_trial and trial is not None:
            title, keys = f"Command of trial {trial.name}, without the console", f"{turn}: of the preset"
            variables = base.rank_environment(trial, available_cores()).items()
            assignments = (f"{name}={shlex.quote(value)}" for name, value in variables)  # in shell syntax
            shown = " ".join([*assignments, shlex.join(base.rank_command(trial))])
        self.border_title, self.border_subtitle = Content(title), Content(keys)
        self.query_one(Static).update(Content(shown))
