"""Earlier runs: list, filter, open, replay, compare, resume, delete."""

import asyncio
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.getters import query_one
from textual.widgets import DataTable, Input, Static

from ddptui.engines.preflight import prepare
from ddptui.store.outcomes import results_of
from ddptui.store.overview import Overview, delete, overview
from ddptui.store.runs import Run, RunError, all_runs
from ddptui.text.words import count
from ddptui.tui.screens.base import LabScreen
from ddptui.tui.screens.dialogs import Confirm
from ddptui.tui.screens.result import CompareScreen
from ddptui.tui.widgets.frame import TitleBar
from ddptui.tui.widgets.tables import RunTable

COMPLETE = ("ok", "failed")
BATCH = 20  # runs that a thread reads between two updates of the table: the first ones show at once


class RunsScreen(LabScreen):
    """Lists the runs in the console's folder, newest first. A thread reads them."""

    CSS_PATH = "runs.tcss"
    PURPOSE = "Earlier runs, newest first. A run can be opened, replayed, compared with another one, and deleted."
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "Filter", key_display="/", show=False),
        Binding("space", "mark", "Mark a run, to compare it", show=False),
        Binding("c", "compare", "Compare", tooltip="Two runs side by side: mark one of them with space first"),
        Binding("d", "delete", "Delete"),
        Binding("v", "replay", "Replay"),
        Binding("u", "resume", "Resume", tooltip="Launch what is missing in a run that was interrupted"),
        Binding("r", "refresh", "Read the folder again", show=False),
        Binding("escape", "back", "Back"),
    ]
    _table = query_one(RunTable)

    def __init__(self) -> None:
        super().__init__()
        self._known: list[Overview] = []
        self._complete = False  # whether all runs of the folder are known
        self._problem = ""  # with the folder itself
        self._marked: list[str] = []  # at most two, by name

    def compose_content(self) -> ComposeResult:
        yield Input(placeholder="/ filter by name, preset, status or day", compact=True)
        yield RunTable(id="runs", classes="pane")
        yield Static(id="note", markup=False)

    def on_mount(self) -> None:
        self._table.focus()
        self.action_refresh()

    def action_refresh(self) -> None:
        self._known, self._complete, self._problem = [], False, ""
        self._show()
        self._read()

    @work(exclusive=True, group="read")  # a newer scan cancels the one under way
    async def _read(self) -> None:
        runs: list[Run] = []
        try:
            runs = await asyncio.to_thread(all_runs, self.console_app.runs)
        except OSError as error:
            self._problem = f"{self.console_app.runs}: {error.strerror}"
        for first in range(0, len(runs), BATCH):
            batch = map(overview, runs[first : first + BATCH])  # lazy: the thread reads them
            self._known = [*self._known, *await asyncio.to_thread(list, batch)]
            self._show()
        self._complete = True
        self._show()

    @on(Input.Changed)
    def _show(self) -> None:
        if self not in self.app.screen_stack:  # left while the thread was reading
            return
        words = self.query_one(Input).value
        shown = [known for known in self._known if known.fits(words)]
        session = self.console_app.session
        self._table.show(shown, self._marked, session.run.name if session else None)
        number = count(len(self._known), "run") + ("" if self._complete else " …")
        if len(shown) < len(self._known):
            number = f"{len(shown)} of {number}"
        self.query_one(TitleBar).show("Runs", number)
        self._show_note()

    @on(DataTable.RowHighlighted)
    def _show_note(self) -> None:
        chosen = self._chosen()
        note = chosen.problem or chosen.run.name if chosen else self._why_empty()
        self.query_one("#note", Static).update(Content(note))
        self.refresh_bindings()  # not every run can be resumed

    def _why_empty(self) -> str:
        if self._known:
            return f"No run matches «{self.query_one(Input).value}»."
        if self._problem:
            return self._problem
        if not self._complete:
            return "Looking for runs …"
        return f"No runs yet in {self.console_app.runs}. Go back, pick a preset and run it."

    def _chosen(self) -> Overview | None:
        # No table: the screen has been left, and its footer asks once more what applies.
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
        """Offer to resume only runs in which launches are missing."""
        chosen = self._chosen()
        return action != "resume" or (chosen is not None and not chosen.problem and chosen.status not in COMPLETE)

    def action_resume(self) -> None:
        if chosen := self._openable():
            self.console_app.resume(chosen.run, lambda: prepare(chosen.run.preset()))

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
        """Mark the chosen run, or unmark it. A third mark takes the place of the first."""
        if chosen := self._openable():
            others = [name for name in self._marked if name != chosen.run.name]
            self._marked = others if chosen.run.name in self._marked else [*others, chosen.run.name][-2:]
            self._show()

    @work(exclusive=True, group="compare")
    async def action_compare(self) -> None:
        names = self._marked if len(self._marked) == 2 else [*self._marked, self._table.chosen]
        two = [known for name in dict.fromkeys(names) if (known := self._of(name)) and not known.problem]
        if len(two) != 2:
            self.notify("Mark a run with space, go to another one, and compare.", markup=False)
            return
        older, newer = sorted((known.run for known in two), key=lambda run: run.name)  # names begin with the time
        try:
            a = await asyncio.to_thread(results_of, older, older.preset())
            b = await asyncio.to_thread(results_of, newer, newer.preset())
        except RunError as error:
            self.console_app.complain("Cannot be compared", str(error))
        else:
            self.app.push_screen(CompareScreen(a, b))

    @work
    async def action_delete(self) -> None:
        chosen = self._chosen()
        if chosen is None:
            return
        session = self.console_app.session
        if session is not None and session.run.folder == chosen.run.folder:
            self.notify("This run is under way: stop it first.", severity="warning", markup=False)
            return
        question = f"Delete {chosen.run.name} with its journals and checkpoints? It cannot be brought back."
        if await self.app.push_screen_wait(Confirm(question, yes="Delete")):
            try:  # checkpoints may be large: a thread deletes them
                await asyncio.to_thread(delete, self.console_app.runs, chosen.run)
            except RunError as error:
                self.console_app.complain("Not deleted", str(error))
                self.action_refresh()  # a part of the run may be gone
                return
            row = self._table.cursor_row  # the cursor stays in its place, on the run that has moved up
            self._marked = [name for name in self._marked if name != chosen.run.name]
            self._known = [known for known in self._known if known.run.name != chosen.run.name]
            self._show()
            self._table.move_cursor(row=row)
            if not self._complete:  # the scan under way may have read it before it was deleted
                self.action_refresh()
