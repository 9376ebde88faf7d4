"""The Runs screen: lists earlier runs to filter, open, replay, compare, resume, delete and restore."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.events import ScreenResume
from textual.getters import query_one
from textual.widgets import DataTable, Input, Static

from ddptui.run.resume import begin_resumption
from ddptui.store.overview import Overview, overview
from ddptui.store.runs import Run, all_runs
from ddptui.store.trash import Moved, deleted, discard, restore
from ddptui.text.words import count
from ddptui.tui.background import in_background
from ddptui.tui.keys import bound, name_of
from ddptui.tui.screens.base import LabScreen
from ddptui.tui.screens.dialogs import Confirm
from ddptui.tui.widgets.frame import TitleBar
from ddptui.tui.widgets.tables import RunTable

COMPLETE = ("ok", "failed")
MOST_NAMES = 4  # names of runs in a question or a notification
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
        bound(
            "compare",
            "compare",
            "Compare",
            show=False,
            tooltip="Compare two runs: mark one with space first",
        ),
        bound(
            "delete", "delete", "Delete", show=False, tooltip="Move the marked runs, or the chosen one, to the trash"
        ),
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
        self._known: list[Overview] = []
        self._complete = False  # whether all runs of the folder have been read
        self._problem = ""  # an error with the folder itself
        self._marked: list[str] = []  # names of runs
        self._has_trash = False
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

    def action_refresh(self) -> None:
        self._complete, self._problem = False, ""
        self._show()
        self._read()

    @work(exclusive=True, group="read")  # a newer scan cancels the one under way
    async def _read(self) -> None:
        """Read all runs again. The line of a run stays as it was until the run has been read again."""
        runs: list[Run] = []
        try:
            runs = await in_background(partial(all_runs, self.console_app.runs))
            self._has_trash = bool(await in_background(partial(deleted, self.console_app.runs)))
        except OSError as error:
            self._problem = f"{self.console_app.runs}: {error.strerror}"
        before, read = {known.run.name: known for known in self._known}, list[Overview]()
        for first in range(0, len(runs), BATCH):
            batch = map(overview, runs[first : first + BATCH])  # lazy, so that the thread does the reading
            read += await in_background(partial(list, batch))
            self._known = [*read, *(before[run.name] for run in runs[len(read) :] if run.name in before)]
            self._show()
        self._known, self._complete = read, True
        self._marked = [name for name in self._marked if self._of(name)]
        self._show()

    @on(Input.Changed)
    def _show(self) -> None:
        if self not in self.app.screen_stack:  # the user left while the thread was reading
            return
        words = self.query_one(Input).value
        # Always show marked runs: the user could forget a hidden mark, and delete its run.
        shown = [known for known in self._known if known.fits(words) or known.run.name in self._marked]
        session = self.console_app.session
        self._table.show(shown, self._marked, session.run.name if session else None)
        number = count(len(self._known), "run") + ("" if self._complete else " …")
        if len(shown) < len(self._known):
            number = f"{len(shown)} of {number}"
        if self._marked:
            number += f", {len(self._marked)} marked"
        self.query_one(TitleBar).show("Runs", number)
        self._show_note()

    @on(DataTable.RowHighlighted)
    def _show_note(self) -> None:
        chosen = self._chosen()
        note = chosen.why or chosen.run.name if chosen else self._why_empty()
        self.query_one("#note", Static).update(Content(note))
        self.refresh_bindings()  # not every run can be resumed

    def _why_empty(self) -> str:
        if self._known:
            return f'No run matches "{self.query_one(Input).value}".'
        if self._problem:
            return self._problem
        if not self._complete:
            return "Looking for runs …"
        return f"No runs yet in {self.console_app.runs}. Go back, pick a preset and run it."

    def _chosen(self) -> Overview | None:
        # Without a table, the screen has been left, and its footer asks for the active keys once more.
        return self._of(self._table.chosen) if self.query(RunTable) else None

    def _of(self, name: str | None) -> Overview | None:
        return next((known for known in self._known if known.run.name == name), None)

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

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Enable Resume only for runs with missing launches, and Undo only if there are runs in the trash."""
        if action == "undo":
            return self._has_trash
        chosen = self._chosen()
        return action != "resume" or (chosen is not None and not chosen.problem and chosen.status not in COMPLETE)

    def action_resume(self) -> None:
        if chosen := self._openable():
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
            others = [name for name in self._marked if name != chosen.run.name]
            self._marked = others if chosen.run.name in self._marked else [*others, chosen.run.name]
            self._show()

    def action_compare(self) -> None:
        names = self._marked if len(self._marked) > 1 else [*self._marked, self._table.chosen]
        runs = [known for name in dict.fromkeys(names) if (known := self._of(name))]
        if len(runs) != 2:
            how = "Mark a run with space, move to another run, and compare again."
            self.notify(f"{len(runs)} runs are marked; mark only two." if len(runs) > 2 else how, markup=False)
            return
        older, newer = sorted((known.run for known in runs), key=lambda run: run.name)  # names begin with the time
        self.console_app.compare(older, newer)

    @work
    async def action_delete(self) -> None:
        """Move the marked runs to the trash, or the chosen one if none is marked."""
        runs = [known.run for name in self._marked or [self._table.chosen or ""] if (known := self._of(name))]
        if not runs:
            return
        session = self.console_app.session
        if session is not None and session.run.folder in [run.folder for run in runs]:
            self.notify(f"{session.run.name} is still running: stop it first.", severity="warning", markup=False)
            return
        if await self.app.push_screen_wait(Confirm(_question(runs, name_of("undo", self.app)), yes="Delete")):
            moved = await self._move(lambda: discard(self.console_app.runs, runs), "Not deleted")
            gone = {run.name for run in moved.runs}
            # Keep the cursor on its run, or on the run that moved up to its row.
            row = sum(name not in gone for name in self._table.names[: self._table.cursor_row])
            self._marked = [name for name in self._marked if name not in gone]
            self._known = [known for known in self._known if known.run.name not in gone]
            self._show()
            self._table.move_cursor(row=row)
            if gone:
                self.notify(
                    f"Moved to the trash. {name_of('undo', self.app)} restores the runs that were deleted last.",
                    title=_names(moved.runs),
                    markup=False,
                )
            self.action_refresh()  # a running scan may have read the runs in their old place

    @work
    async def action_undo(self) -> None:
        moved = await self._move(lambda: restore(self.console_app.runs), "Not restored")
        if moved.runs:
            back = await in_background(lambda: [overview(run) for run in moved.runs])
            self._known = sorted([*self._known, *back], key=lambda known: known.run.name, reverse=True)
            self._show()
            self._table.choose(moved.runs[0].name)
            self.notify("Restored from the trash.", title=_names(moved.runs), markup=False)
        self.action_refresh()

    async def _move(self, move: Callable[[], Moved], failed: str) -> Moved:
        """Move runs to or from the trash in a thread, and show errors."""
        async with self._moving:
            try:
                moved = await in_background(move)
            except OSError as error:
                moved = Moved([], [f"{error.filename}: {error.strerror}"])
        for problem in moved.problems:
            self.console_app.complain(failed, problem)
        return moved


def _question(runs: Sequence[Run], undo: str) -> str:
    what = f"Delete {_names(runs)}" if len(runs) == 1 else f"Delete {len(runs)} marked runs: {_names(runs)}"
    return f"{what}? {undo} restores the last deleted runs; `ddptui delete --empty-trash` deletes them permanently."


def _names(runs: Sequence[Run]) -> str:
    more = f" and {len(runs) - MOST_NAMES} more" if len(runs) > MOST_NAMES else ""
    return ", ".join(run.name for run in runs[:MOST_NAMES]) + more
