"""Earlier runs: found, opened, replayed, compared, deleted."""

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
from ddptui.config.parser import PresetError
from ddptui.engines.preflight import prepare
from ddptui.store.outcomes import results_of
from ddptui.store.overview import Overview, overview
from ddptui.store.runs import Run, RunError, all_runs, delete
from ddptui.text.words import count
from ddptui.tui.screens.base import LabScreen
from ddptui.tui.screens.compare import CompareScreen
from ddptui.tui.screens.confirm import Confirm
from ddptui.tui.widgets.run_table import RunTable
from ddptui.tui.widgets.title_bar import TitleBar

COMPLETE = ("ok", "failed")
BATCH = 20  # runs that are read before they are shown


class RunsScreen(LabScreen):
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
        """Some more runs are known. `reading`: for the how manieth time the folder was being read."""

        def __init__(self, reading: int, found: list[Overview], *, last: bool = False, problem: str = "") -> None:
            super().__init__()
            self.reading, self.found, self.last, self.problem = reading, found, last, problem

    def __init__(self) -> None:
        super().__init__()
        self._known: list[Overview] = []
        self._complete = False
        self._problem = ""  # with the folder itself
        self._readings = 0
        self._marked: list[str] = []  # at most two, by name

    def compose_content(self) -> ComposeResult:
        yield Input(placeholder="/ filter by name, preset, status or day", compact=True)
        yield RunTable(id="runs", classes="pane")
        yield Static(id="told", markup=False)

    def on_mount(self) -> None:
        self._table.focus()
        self.action_refresh()

    @property
    def _table(self) -> RunTable:
        return self.query_one(RunTable)

    # Reading

    def action_refresh(self) -> None:
        self._known, self._complete, self._problem = [], False, ""
        self._readings += 1
        self._show()
        self._read(self._readings)

    @work(thread=True, exclusive=True, group="read")
    def _read(self, reading: int) -> None:
        worker = get_current_worker()
        found: list[Overview] = []
        try:
            runs = all_runs(self.console_app.runs)
        except OSError as error:
            self.post_message(self.Read(reading, [], last=True, problem=f"{self.console_app.runs}: {error.strerror}"))
            return
        for run in runs:
            if worker.is_cancelled:
                return
            found.append(overview(run))
            if len(found) == BATCH:
                self.post_message(self.Read(reading, found))
                found = []
        self.post_message(self.Read(reading, found, last=True))

    def on_runs_screen_read(self, message: Read) -> None:
        if message.reading != self._readings:  # it has been begun anew since
            return
        self._known = [*self._known, *message.found]
        self._complete, self._problem = message.last, message.problem
        self._show()

    # Showing

    @on(Input.Changed)
    def _show(self) -> None:
        wanted = self.query_one(Input).value
        shown = [known for known in self._known if known.fits(wanted)]
        session = self.console_app.session
        self._table.show(shown, self._marked, session.run.name if session else None)
        number = count(len(self._known), "run") + ("" if self._complete else " …")
        if len(shown) < len(self._known):
            number = f"{len(shown)} of {number}"
        self.query_one(TitleBar).show("Runs", number)
        self._tell()

    @on(DataTable.RowHighlighted)
    def _tell(self) -> None:
        """The line at the foot: what else there is to say of the run under the cursor, or why there is none."""
        chosen = self._chosen()
        self.query_one("#told", Static).update(
            Content(chosen.problem or chosen.run.name if chosen else self._nothing())
        )
        self.refresh_bindings()

    def _nothing(self) -> str:
        if self._known:
            return f"No run fits «{self.query_one(Input).value}»."
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
        """The chosen run, if it can be read; else it is said why not."""
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
        """Only a run in which something is missing can be resumed."""
        chosen = self._chosen()
        return action != "resume" or (chosen is not None and not chosen.problem and chosen.status not in COMPLETE)

    def action_resume(self) -> None:
        chosen = self._openable()
        if chosen is None:
            return
        try:
            self.console_app.resume(chosen.run, prepare(chosen.run.preset()))
        except (RunError, PresetError) as error:
            self.console_app.complain("Not resumed", str(error))

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
        """A third mark takes the first one's place."""
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
        """The cursor stays at its place, on the run that has moved up to it."""
        place = self._table.cursor_row
        self._marked = [name for name in self._marked if name != deleted]
        self._known = [known for known in self._known if known.run.name != deleted]
        self._show()
        self._table.move_cursor(row=place)
        if not self._complete:  # and what is being read may still have it
            self.action_refresh()


def _results(run: Run) -> Results:
    return results_of(run, run.preset())
