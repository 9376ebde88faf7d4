"""Earlier runs: list, filter, open, replay, compare, resume, delete."""

import asyncio
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widgets import DataTable, Input, Static
from textual.worker import get_current_worker

from ddptui.analysis.results import Results
from ddptui.engines.preflight import prepare
from ddptui.store.outcomes import results_of
from ddptui.store.overview import Overview, delete, overview
from ddptui.store.runs import Run, RunError, all_runs
from ddptui.text.words import count
from ddptui.tui.screens.base import LabScreen
from ddptui.tui.screens.compare import CompareScreen
from ddptui.tui.screens.dialogs import Confirm
from ddptui.tui.widgets.frame import TitleBar
from ddptui.tui.widgets.tables import RunTable

COMPLETE = ("ok", "failed")
BATCH = 20  # runs that a thread reads between two updates of the table


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

    class Read(Message):
        """A batch of runs was read. `scan`: number of the scan that it belongs to."""

        def __init__(self, scan: int, runs: list[Overview], *, last: bool = False, problem: str = "") -> None:
            super().__init__()
            self.scan, self.runs, self.last, self.problem = scan, runs, last, problem

    def __init__(self) -> None:
        super().__init__()
        self._known: list[Overview] = []
        self._complete = False
        self._problem = ""  # with the folder itself
        self._scans = 0
        self._marked: list[str] = []  # at most two, by name

    def compose_content(self) -> ComposeResult:
        yield Input(placeholder="/ filter by name, preset, status or day", compact=True)
        yield RunTable(id="runs", classes="pane")
        yield Static(id="note", markup=False)

    def on_mount(self) -> None:
        self._table.focus()
        self.action_refresh()

    @property
    def _table(self) -> RunTable:
        return self.query_one(RunTable)

    # Reading

    def action_refresh(self) -> None:
        self._known, self._complete, self._problem = [], False, ""
        self._scans += 1
        self._show()
        self._read(self._scans)

    @work(thread=True, exclusive=True, group="read")
    def _read(self, scan: int) -> None:
        worker = get_current_worker()
        batch: list[Overview] = []
        try:
            runs = all_runs(self.console_app.runs)
        except OSError as error:
            self.post_message(self.Read(scan, [], last=True, problem=f"{self.console_app.runs}: {error.strerror}"))
            return
        for run in runs:
            if worker.is_cancelled:
                return
            batch.append(overview(run))
            if len(batch) == BATCH:
                self.post_message(self.Read(scan, batch))
                batch = []
        self.post_message(self.Read(scan, batch, last=True))

    def on_runs_screen_read(self, message: Read) -> None:
        if message.scan != self._scans:  # a newer scan has begun since
            return
        self._known = [*self._known, *message.runs]
        self._complete, self._problem = message.last, message.problem
        self._show()

    # Showing

    @on(Input.Changed)
    def _show(self) -> None:
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
        """Show at the foot the name of the run under the cursor, or its problem, or why there is no run."""
        chosen = self._chosen()
        self.query_one("#note", Static).update(
            Content(chosen.problem or chosen.run.name if chosen else self._why_empty())
        )
        self.refresh_bindings()

    def _why_empty(self) -> str:
        if self._known:
            return f"No run matches «{self.query_one(Input).value}»."
        if self._problem:
            return self._problem
        if not self._complete:
            return "Looking for runs …"
        return f"No runs yet in {self.console_app.runs}. Go back, pick a preset and run it."

    def _chosen(self) -> Overview | None:
        return self._of(self._table.chosen)

    def _of(self, name: str | None) -> Overview | None:
        return next((known for known in self._known if known.run.name == name), None)

    def _openable(self) -> Overview | None:
        """Return the chosen run if it can be read; else complain, and return None."""
        chosen = self._chosen()
        if chosen and chosen.problem:
            self.console_app.complain("Cannot be opened", chosen.problem)
            return None
        return chosen

    def _is_under_way(self, run: Run) -> bool:
        session = self.console_app.session
        return session is not None and session.run.folder == run.folder

    # Keys

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
        older, newer = sorted(two, key=lambda known: known.run.name)
        try:
            a = await asyncio.to_thread(_results, older.run)
            b = await asyncio.to_thread(_results, newer.run)
        except RunError as error:
            self.console_app.complain("Cannot be compared", str(error))
        else:
            self.app.push_screen(CompareScreen(a, b))

    @work
    async def action_delete(self) -> None:
        chosen = self._chosen()
        if chosen is None:
            return
        if self._is_under_way(chosen.run):
            self.notify("This run is under way: stop it first.", severity="warning", markup=False)
            return
        question = f"Delete {chosen.run.name} with its journals and checkpoints? It cannot be brought back."
        if await self.app.push_screen_wait(Confirm(question, yes="Delete")):
            await self._delete(chosen.run)

    async def _delete(self, run: Run) -> None:
        try:
            await asyncio.to_thread(delete, self.console_app.runs, run)
        except RunError as error:
            self.console_app.complain("Not deleted", str(error))
            self.action_refresh()
        else:
            self._forget(run.name)

    def _forget(self, deleted: str) -> None:
        """Take a deleted run out of the list. The cursor stays in its place, on the run that has moved up."""
        row = self._table.cursor_row
        self._marked = [name for name in self._marked if name != deleted]
        self._known = [known for known in self._known if known.run.name != deleted]
        self._show()
        self._table.move_cursor(row=row)
        if not self._complete:  # the scan under way may have read it before it was deleted
            self.action_refresh()


def _results(run: Run) -> Results:
    return results_of(run, run.preset())
