"""The panes of the Result screen, and how the lines are divided among them."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from textual.app import ComposeResult

from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.report.notes import in_short
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
BORDER = 2  # lines
TABLE_PART, PART = 0.4, 0.3  # maximum parts of the lines for the table, and for other panes, if all are visible


class ResultPanes(PaneGrid):
    """Holds all panes, of which one, two or all are visible. They are about the trial under the table's cursor."""

    TITLES = TITLES
    SHORT: ClassVar[Mapping[str, str]] = {"bars": "Time", "verdict": "Words", "waits": "Waits", "where": "Where"}
    AT_FIRST = ("table", "verdict", "ranks", "where")
    sharing = ("ranks", "where")
    pinned = "table"

    def compose(self) -> ComposeResult:  # in the order of the grid
        yield Comparison(id="table", classes="pane")
        yield TimeBars(id="bars", classes="pane")
        yield Verdict(id="verdict", classes="pane")
        yield WhoWaits(id="waits", classes="pane")
        yield RankDetail(id="ranks", classes="pane")
        yield Where(id="where", classes="pane")

    def show(self, results: Results, preset: Preset, chosen: str | None) -> None:
        """Show a trial in all panes except the table, where it was chosen."""
        trial = next((trial for trial in results.trials if trial.name == chosen), None)
        self.query_one(TimeBars).show(results, chosen)
        self.query_one(Verdict).show(results, preset, chosen)
        self.titles["verdict"] = ": ".join(filter(None, [TITLES["verdict"], in_short(trial)]))
        self.query_one(WhoWaits).show(trial)
        self.query_one(RankDetail).show(trial)
        self.query_one(Where).show(trial, results)
        self.content = [name for name in TITLES if self._wanted(name)]
        self.make_room()

    def turn(self) -> None:
        """Switch between whole times and differences to the baseline."""
        bars = self.query_one(TimeBars)
        bars.turn()
        self.titles["bars"] = f"{TITLES['bars']}{', against the baseline' * bars.shows_differences}"
        self.make_room()

    def lay_out(self, shown: Sequence[str]) -> str:
        for answer in self.screen.query(Answer):
            answer.display = self.chosen == "table" or not self.screen.has_class("-low")
        beside_words = [] if self.is_crowded else [name for name in ("bars", "waits") if name in shown]
        for name in TITLES:
            is_half = name in beside_words or (name == "verdict" and beside_words)
            self.pane(name).styles.column_span = 1 if is_half else 2
        self.query_one(Verdict).styles.row_span = max(1, len(beside_words))
        if len(shown) == 1 or not self.size.height:
            return "1fr"
        if self.is_crowded:
            left = 1 - (self._wanted(shown[1]) + BORDER) / self.size.height  # the other pane may need less than half
            return f"{self._lines('table', max(0.5, left))} 1fr"
        rows = [self._lines("table", TABLE_PART), "1fr"]
        if len(beside_words) > 1:
            rows.insert(1, self._lines("bars", PART))
        return " ".join([*rows, *(self._lines(name, PART) for name in shown if name in self.sharing)])

    def _lines(self, name: str, part: float) -> str:
        """Return the height of a pane that takes no more than its content, and no more than this part of the room."""
        return str(min(self._wanted(name) + BORDER, round(self.size.height * part)))

    def _wanted(self, name: str) -> int:
        """Return the number of lines that a pane's content takes; 0: it has none."""
        pane = self.pane(name)
        assert isinstance(pane, Comparison | TimeBars | Verdict | RankDetail | WhoWaits | Where)
        return pane.wanted_lines
