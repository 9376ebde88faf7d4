"""The Runs screen: lists earlier runs to filter, open, replay, compare, resume, delete and restore."""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.events import ScreenResume
from textual.getters import query_one
from textual.widgets import DataTable, Input, Static

from ddptui.run.prepare import begin_resumption
from ddptui.store.overview import Overview, overview
from ddptui.store.runs import Run, all_runs
from ddptui.store.trash import Moved, discard, restore
from ddptui.text.words import count, listed
from ddptui.tui.background import in_background
from ddptui.tui.keys import bound, name_of
from ddptui.tui.screens.base import LabScreen
from ddptui.tui.screens.dialogs import Question
from ddptui.tui.widgets.frame import TitleBar
from ddptui.tui.widgets.tables import RunTable

BATCH = 20  # runs that a thread reads between two updates of the table, so that the first ones appear at once


class RunsScreen(LabScreen):
    """Lists the runs in the console's folder, newest first. A thread reads them."""

    CSS_PATH = "runs.tcss"
    PURPOSE = (
        "Earlier runs, newest first. Mark two runs to compare them, or any number to delete them. Marked runs stay in "
        "the list, whatever the filter."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        bound("filter", "filter", "Filter", show=False),
        Binding("space", "mark", "Mark", tooltip="Mark a run, to compare or delete it, or unmark it"),
        bound("compare", "compare", "Compare", show=False, tooltip="Compare two runs: mark one with space first"),
        bound("delete", "delete", "Delete", show=False, tooltip="Move the marked or chosen runs to the trash"),
        bound("undo", "undo", "Undo", show=False, tooltip="Restore the runs that were deleted last"),
        bound("replay", "replay", "Replay", show=False),
        bound("resume", "resume", "Resume", show=False, tooltip="Launch what is missing in an interrupted run"),
        bound("runs", "refresh", "Read the folder again", show=False),
        Binding("escape", "back", "Back"),
    ]
    SPARE_KEYS = ("compare", "delete", "replay", "undo", "resume")
    _table = query_one(RunTable)

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[str, Overview] = {}  # by name
        self._complete = False  # whether all runs of the folder have been read
        self._problem = ""  # an error with the folder itself
        self._marked: set[str] = set()  # names of runs
        self._moving = asyncio.Lock()  # allows one move to or from the trash at a time

    def compose_content(self) -> ComposeResult:
        yield Input(placeholder="/ filter by name, preset, status or day", compact=True)
        yield RunTable(id="runs", classes="pane")
        yield Static(id="note", markup=False)

    def on_mount(self) -> None:
        self._table.focus()
        self.console_app.run_ended_signal.subscribe(self, lambda _: self.action_refresh())

    def on_screen_resume(self, event: ScreenResume) -> None:
        self.action_refresh()  # a run may have been started or resumed meanwhile

    def action_refresh(self, then: str | None = None) -> None:
        """Read the folder again. `then`: the run to which the cursor moves."""
        self._complete, self._problem = False, ""
        self._show()
        self._read(then)

    @work(exclusive=True, group="read")  # a newer scan cancels the one under way
    async def _read(self, then: str | None) -> None:
        """Read all runs again. The line of a run stays as it was until the run has been read again."""
        runs: list[Run] = []
        try:
            runs = await in_background(partial(all_runs, self.console_app.runs))
        except OSError as error:
            self._problem = f"{self.console_app.runs}: {error.strerror}"
        self._known = {run.name: self._known[run.name] for run in runs if run.name in self._known}
        for first in range(0, len(runs), BATCH):
            batch = map(overview, runs[first : first + BATCH])  # lazy, so that the thread does the reading
            read: list[Overview] = await in_background(partial(list, batch))
            self._known |= {known.run.name: known for known in read}
            self._show()
        self._complete = True
        self._marked &= self._known.keys()
        self._show()
        self._table.choose(then)

    @on(Input.Changed)
    def _show(self) -> None:
        words = self.query_one(Input).value
        newest_first = sorted(self._known.items(), reverse=True)  # names begin with the time
        # Always show marked runs: the user could forget a hidden mark, and delete its run.
        shown = [known for name, known in newest_first if known.fits(words) or name in self._marked]
        session = self.console_app.session
        self._table.show(shown, self._marked, session.run.name if session else None)
        number = count(len(self._known), "run") + ("" if self._complete else " …")
        if len(shown) < len(self._known):
            number = f"{len(shown)} of {number}"
        if self._marked:
            number += f", {len(self._marked)} marked"
        self.query_one(TitleBar).shown = "Runs", number
        self._show_note()

    @on(DataTable.RowHighlighted)
    def _show_note(self) -> None:
        if chosen := self._chosen():
            note = chosen.why or chosen.run.name
        elif self._known:
            note = f'No run matches "{self.query_one(Input).value}".'
        elif self._complete:
            note = self._problem or f"No runs yet in {self.console_app.runs}. Go back, pick a preset and run it."
        else:
            note = "Looking for runs …"
        self.query_one("#note", Static).update(Content(note))

    def _chosen(self) -> Overview | None:
        return self._known.get(self._table.chosen or "")

    def _openable(self) -> Overview | None:
        chosen = self._chosen()
        if chosen and chosen.problem:
            self.console_app.complain("Cannot be opened", chosen.problem)
            return None
        return chosen

    @on(DataTable.RowSelected)
    def action_open(self) -> None:
        if chosen := self._openable():
            self.console_app.open_run(chosen.run)

    def action_replay(self) -> None:
        if chosen := self._openable():
            self.console_app.replay(chosen.run)

    def action_resume(self) -> None:
        chosen = self._openable()
        if chosen and chosen.status in ("ok", "failed"):
            self.notify("This run is complete: nothing is missing.")
        elif chosen:
            self.console_app.resume(partial(begin_resumption, chosen.run))

    def action_filter(self) -> None:
        self.query_one(Input).focus()

    @on(Input.Submitted)
    def _leave_filter(self) -> None:
        self._table.focus()

    def action_back(self) -> None:
        typed = self.query_one(Input)
        if typed.value or typed.has_focus:
            typed.value = ""
            self._table.focus()
        else:
            self.app.pop_screen()

    def action_mark(self) -> None:
        """Mark the chosen run, or unmark it."""
        if chosen := self._chosen():
            self._marked ^= {chosen.run.name}
            self._show()

    def action_compare(self) -> None:
        names = self._marked if len(self._marked) > 1 else self._marked | {self._table.chosen or ""}
        older_first = [known.run for name, known in sorted(self._known.items()) if name in names]
        if len(older_first) == 2:
            self.console_app.compare(*older_first)
        elif len(names) > 2:
            self.notify(f"{len(names)} runs are marked; mark only two.")
        else:
            self.notify("Mark a run with space, move to another run, and compare again.")

    @work
    async def action_delete(self) -> None:
        """Move the marked runs to the trash, or the chosen one if none is marked."""
        names = sorted(self._known.keys() & (self._marked or {self._table.chosen or ""}))
        runs = [self._known[name].run for name in names]
        session = self.console_app.session
        if session is not None and session.run.folder in [run.folder for run in runs]:
            self.notify(f"{session.run.name} is still running: stop it first.", severity="warning", markup=False)
        elif runs:
            undo, what = name_of("undo", self.app), f"{len(runs)} marked runs: " if len(runs) > 1 else ""
            question = (
                f"Delete {what}{listed(names)}? {undo} restores the last deleted runs; "
                "`ddptui delete --empty-trash` deletes them permanently."
            )
            if await self.app.push_screen_wait(Question(question, y="Delete")):
                done = f"Moved to the trash. {undo} restores the runs that were deleted last."
                await self._move(lambda folder: discard(folder, runs), "Not deleted", done)

    @work
    async def action_undo(self) -> None:
        await self._move(restore, "Not restored", "Restored from the trash.")

    async def _move(self, move: Callable[[Path], Moved], failed: str, done: str) -> None:
        """Move runs to or from the trash in a thread, tell the user, and read the folder again."""
        async with self._moving:
            try:
                moved = await in_background(partial(move, self.console_app.runs))
            except OSError as error:
                moved = Moved([], [f"{error.filename}: {error.strerror}"])
        for problem in moved.problems:
            self.console_app.complain(failed, problem)
        names = [run.name for run in moved.runs]
        if names:
            self.notify(done, title=listed(names), markup=False)
        self.action_refresh(names[0] if names else None)
