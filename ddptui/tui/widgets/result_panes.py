"""The panes of the Result screen, and how the lines are divided among them."""

from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.content import Content

from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.report.notes import in_short
from ddptui.tui.keys import name_of
from ddptui.tui.widgets.comparison import Answer, Comparison, Verdict
from ddptui.tui.widgets.pane_grid import PaneGrid
from ddptui.tui.widgets.tables import RankDetail
from ddptui.tui.widgets.time_bars import TimeBars
from ddptui.tui.widgets.where import Where
from ddptui.tui.widgets.who_waits import WhoWaits

TITLES = {
    "table": "Trials",
    "bars": "Where the time went",
    "verdict": "In words",
    "ranks": "Ranks",
    "waits": "Who waits for whom",
    "where": "Where in the code",
}
TURNS = {False: "difference to the baseline", True: "whole times"}
BORDER = 2  # lines
TABLE_PART, RANKS_PART = 0.4, 0.3  # maximum parts of the lines if all panes are visible
BESIDE_PART = 0.5  # minimum part of the lines for the pane shown with the table


class ResultPanes(PaneGrid):
    """Holds all panes, of which one, two or all are visible. They are about the trial under the table's cursor."""

    TITLES = TITLES
    SHORT: ClassVar[Mapping[str, str]] = {"bars": "Time", "verdict": "Words", "waits": "Waits", "where": "Where"}
    AT_FIRST = ("table", "verdict", "ranks", "where")

    def compose(self) -> ComposeResult:  # in the order of the grid
        yield Comparison(id="table", classes="pane")
        yield TimeBars(id="bars", classes="pane")
        yield Verdict(id="verdict", classes="pane")
        yield WhoWaits(id="waits", classes="pane")
        yield RankDetail(id="ranks", classes="pane")
        yield Where(id="where", classes="pane")

    def on_mount(self) -> None:
        self._name_turn()

    def show(self, results: Results, preset: Preset, chosen: str | None) -> None:
        """Show a trial in all panes except the table, where it was chosen."""
        trial = next((trial for trial in results.trials if trial.name == chosen), None)
        self.query_one(TimeBars).show(results, chosen)
        self.query_one(Verdict).show(results, preset, chosen)
        self.titles["verdict"] = ": ".join(filter(None, [TITLES["verdict"], in_short(trial)]))
        if len(results.trials) > 1:
            self.titles["waits"] = f"{TITLES['waits']}, in {chosen}"
        self.query_one(WhoWaits).show(trial)
        self.query_one(RankDetail).show(trial)
        self.query_one(Where).show(trial, results)
        self.make_room()

    def turn(self) -> None:
        """Switch between whole times and differences to the baseline."""
        bars = self.query_one(TimeBars)
        bars.turn()
        self.titles["bars"] = f"{TITLES['bars']}{', against the baseline' * bars.shows_differences}"
        self._name_turn()
        self.make_room()

    def _name_turn(self) -> None:
        """Show the key that switches the bars, and what they show then."""
        bars = self.query_one(TimeBars)
        bars.border_subtitle = Content(f"{name_of('figure', self.app)}: {TURNS[bars.shows_differences]}")

    def content(self) -> Collection[str]:
        return [name for name in TITLES if self._wanted(name)]

    def sharing(self) -> Sequence[str]:
        if self.is_crowded:  # one pane; or the table and another one
            return [*TITLES][0 if self.screen.has_class("-low") else 1 :]
        return "ranks", "where"

    def lay_out(self, shown: Sequence[str]) -> str:
        for answer in self.screen.query(Answer):
            answer.display = self.chosen == "table" or not self.screen.has_class("-low")
        beside_words = [] if self.is_crowded else [name for name in ("bars", "waits") if name in shown]
        for name in TITLES:
            is_half = name in beside_words or (name == "verdict" and beside_words)
            self.pane(name).styles.column_span = 1 if is_half else 2
        self.query_one(Verdict).styles.row_span = max(1, len(beside_words))
        return " ".join([*map(str, self._heights(shown)), "1fr"]) if len(shown) > 1 and self.size.height else "1fr"

    def _heights(self, shown: Sequence[str]) -> list[int]:
        """Divide the lines so that no pane has empty lines while another one is cut off."""
        room, wanted = self.size.height, {name: self._wanted(name) + BORDER for name in shown}
        if self.is_crowded:
            return [min(wanted["table"], max(int(room * (1 - BESIDE_PART)), room - wanted[shown[1]]))]
        table = min(wanted["table"], int(room * TABLE_PART))
        last = sum(min(wanted[name], int(room * RANKS_PART)) for name in shown if name in self.sharing())
        middle = room - table - last
        if "bars" in shown and "waits" in shown:
            bars = min(wanted["bars"], middle - min(wanted["waits"], middle // 2))
            return [table, bars, middle - bars] if last else [table, bars]
        return [table, middle] if last else [table]

    def _wanted(self, name: str) -> int:
        """Return the number of lines that a pane's content takes; 0: it has none."""
        pane = self.pane(name)
        assert isinstance(pane, Comparison | TimeBars | Verdict | RankDetail | WhoWaits | Where)
        return pane.wanted_lines
