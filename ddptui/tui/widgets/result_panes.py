"""The panes of the Result screen, and how the lines are divided among them."""

from textual.app import ComposeResult
from textual.containers import Container
from textual.content import Content
from textual.widget import Widget

from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.report.notes import in_short
from ddptui.tui.keys import name_of
from ddptui.tui.widgets.comparison import Comparison, Verdict
from ddptui.tui.widgets.tables import RankDetail
from ddptui.tui.widgets.time_bars import TimeBars
from ddptui.tui.widgets.where import Where
from ddptui.tui.widgets.who_waits import WhoWaits

PANES = {
    "table": "Trials",
    "bars": "Where the time went",
    "verdict": "In words",
    "ranks": "Ranks",
    "waits": "Who waits for whom",
    "where": "Where in the code",
}
SHORT = {"bars": "Time", "verdict": "Words", "waits": "Waits", "where": "Where"}
TURNS = {False: "difference to the baseline", True: "whole times"}
SHARED = ("ranks", "where")  # panes that share a place in the grid
BORDER = 2  # lines
TABLE_PART, RANKS_PART = 0.4, 0.3  # maximum parts of the lines if all panes are visible
BESIDE_PART = 0.5  # minimum part of the lines for the pane shown with the table


class ResultPanes(Container):
    """Holds all panes, of which one, two or all are visible."""

    def compose(self) -> ComposeResult:
        yield Comparison(id="table", classes="pane")
        yield TimeBars(id="bars", classes="pane")
        yield Verdict(id="verdict", classes="pane -beside")
        yield WhoWaits(id="waits", classes="pane")
        yield RankDetail(id="ranks", classes="pane")
        yield Where(id="where", classes="pane")

    def on_mount(self) -> None:
        for pane in PANES:
            self.pane(pane).border_title = _title(pane)
        self._name_turn()

    def pane(self, name: str) -> Widget:
        """Return the pane with this name, a key of PANES."""
        return self.query_one(f"#{name}")

    def show(self, results: Results, preset: Preset, chosen: str | None) -> None:
        """Show a trial in all panes except the table, where it was chosen."""
        trial = next((trial for trial in results.trials if trial.name == chosen), None)
        self.query_one(TimeBars).show(results, chosen)
        verdict, finding = self.query_one(Verdict), in_short(trial)
        verdict.show(results, preset, chosen)
        verdict.border_title = Content(": ".join(filter(None, [_title("verdict"), finding])))
        self.query_one(WhoWaits).show(trial)
        self.query_one(RankDetail).show(trial)
        self.query_one(Where).show(trial, results, preset)
        self.make_room()

    def turn(self) -> None:
        """Switch between whole times and differences to the baseline."""
        bars = self.query_one(TimeBars)
        bars.turn()
        bars.border_title = f"{_title('bars')}{', against the baseline' * bars.shows_differences}"
        self._name_turn()
        self.make_room()

    def _name_turn(self) -> None:
        """Show the key that switches the bars, and what they show then."""
        bars = self.query_one(TimeBars)
        bars.border_subtitle = f"{name_of('figure', self.app)}: {TURNS[bars.shows_differences]}"

    def choose(self, chosen: str) -> None:
        """Choose a pane, and show it if there is no room for all."""
        for name in PANES:
            self.pane(name).set_class(name == chosen, "-chosen")
            if chosen != "table":  # if two panes are visible, the second one is shown with the table
                self.pane(name).set_class(name == chosen, "-beside")
        if chosen in SHARED:
            self.set_class(chosen == "where", "-where")
        self.make_room()

    def on_resize(self) -> None:
        self.make_room()

    def make_room(self) -> None:
        """Divide the lines so that no pane has empty lines while another one is cut off."""
        room, screen, waits = self.size.height, self.screen, self.query_one(WhoWaits)
        if not room:  # not laid out yet
            return
        shows_all = not (screen.has_class("-short") or screen.has_class("-narrow"))
        self.set_class(shows_all and waits.is_empty and not waits.has_class("-chosen"), "-without-waits")
        if screen.has_class("-low"):
            rows = "1fr"
        elif not shows_all:
            beside = next(name for name in PANES if self.pane(name).has_class("-beside"))
            at_most = max(int(room * (1 - BESIDE_PART)), room - self._wanted(beside))
            rows = f"{min(self._wanted('table'), at_most)} 1fr"
        else:
            table = min(self._wanted("table"), int(room * TABLE_PART))
            shown = "where" if self.has_class("-where") else "ranks"
            ranks = min(self._wanted(shown), int(room * RANKS_PART))
            middle = room - table - ranks
            bars = min(self._wanted("bars"), middle - min(self._wanted("waits"), middle // 2))
            rows = f"{table} {bars} 1fr {ranks}"
        self.styles.grid_rows = rows  # Textual lays out the grid again only if the rows differ

    def _wanted(self, name: str) -> int:
        pane = self.pane(name)
        assert isinstance(pane, Comparison | TimeBars | Verdict | RankDetail | WhoWaits | Where)
        return pane.wanted_lines + BORDER


def _title(pane: str) -> str:
    """A pane's title with its key, and the pane that shares its place."""
    key = {name: str(number) for number, name in enumerate(PANES, start=1)}
    beside = "".join(f" · {key[other]}: {PANES[other].lower()}" for other in SHARED if pane in SHARED and other != pane)
    return f"{key[pane]} {PANES[pane]}{beside}"
