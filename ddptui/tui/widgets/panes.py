"""The panes of the Run screen: a grid if there is room, otherwise one at a time. Only visible panes are drawn."""

from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, NamedTuple

from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Log

from ddptui.engines.base import LAUNCHER_LOG
from ddptui.live.monitor import RunMonitor
from ddptui.live.state import mean_of
from ddptui.run.playback import Playback
from ddptui.run.session import Session
from ddptui.store.journal import LogTail
from ddptui.text.drawing import series_kind
from ddptui.tui.background import in_background
from ddptui.tui.keys import name_of
from ddptui.tui.widgets.comparison import Comparison
from ddptui.tui.widgets.frame import PaneBar
from ddptui.tui.widgets.last_steps import MOST_STEPS, Arrivals, Timeline
from ddptui.tui.widgets.line_chart import LineChart, Series
from ddptui.tui.widgets.lists import SCROLL_KEYS
from ddptui.tui.widgets.rank_table import RankTable
from ddptui.tui.widgets.where import Where

TITLES = {
    "ranks": "Ranks",
    "arrivals": "Arrivals",
    "timeline": "Timeline",
    "loss": "Loss",
    "so-far": "So far",
    "log": "Log",
    "where": "Where",
}
OF_STEPS = ("arrivals", "timeline", "loss", "where")  # while a trial starts, these show the previous trial
CHART_EVERY_NS = 1e9  # curves change slowly, and drawing them costs as much as everything else
BESIDE = ("so-far", "log", "where")  # panes that share a place in the grid
MOST_CURVES = 8  # curves of ranks, besides the mean
FEW_CURVES = 4  # up to this many curves, each has its own color
MOST_LOG_LINES = 2000  # lines kept on the screen; the file has all of them
MOST_LINES = 8  # ranks in the table and in the timeline of a grid


class Picture(NamedTuple):
    """The data for one drawing of the screen. `states`: rank -> words; `now_ns`: by the console's clock."""

    watched: RunMonitor
    states: dict[int, str]
    now_ns: int


class RankLog(Log):
    """Follows one rank's log file."""

    BINDINGS: ClassVar[list[BindingType]] = SCROLL_KEYS
    _tail: LogTail | None = None
    _read: LogTail | None = None  # the file that a thread is reading

    def show(self, path: Path) -> None:
        """Read the new lines of this log file, and append them. Another file replaces the text."""
        if self._tail is None or self._tail.path != path:
            self._tail = LogTail(path)
            self.clear()
        if self._read is not self._tail:
            self._follow(self._tail)

    @work
    async def _follow(self, tail: LogTail) -> None:
        self._read = tail
        lines = await in_background(tail.new_lines)
        if tail is self._tail:  # otherwise the pane shows another log by now
            self._read = None
            if lines:
                self.write_lines(lines)


class Panes(Container):
    """Holds all panes of the Run screen."""

    chosen = "ranks"
    _charted: tuple[object, ...] = ()

    def __init__(self, choose: Callable[[str], None], *, numbered: bool) -> None:
        """The parameters are those of PaneBar."""
        super().__init__()
        self._choose, self._numbered = choose, numbered

    def compose(self) -> ComposeResult:
        yield PaneBar(self._choose, numbered=self._numbered)
        with Container(id="grid"):
            yield RankTable(id="ranks", classes="pane")
            yield Arrivals(id="arrivals", classes="pane")
            yield LineChart(id="loss", classes="pane")
            yield Timeline(id="timeline", classes="pane")
            yield Comparison(id="so-far", classes="pane", growing=True)
            yield RankLog(id="log", classes="pane", max_lines=MOST_LOG_LINES)
            yield Where(id="where", classes="pane")

    def on_mount(self) -> None:
        for name, title in TITLES.items():
            pane = self.pane(name)
            pane.can_focus = True  # drawings are not focusable by default
            pane.border_title = self._title(name, title)
            pane.border_subtitle = self._hint(name)
        self.choose(self.chosen)

    def _title(self, name: str, title: str) -> str:
        """Return a pane's title with its key, and the names of the panes that share its place."""
        others = [other for other in BESIDE if other != name] if name in BESIDE else []
        beside = [f"{self._key(other, ': ')}{TITLES[other].lower()}" for other in others]
        return " · ".join([f"{self._key(name, ' ')}{title}", *beside])

    def _hint(self, name: str) -> str:
        """Return what a pane's lower border says."""
        asks = f"own work, in ms a step · {name_of('stacks', self.app)}: where each rank is now" * self._numbered
        return {"ranks": "times in ms, medians of the last two seconds", "where": asks}.get(name, "")

    def _key(self, name: str, end: str) -> str:
        return f"{[*TITLES].index(name) + 1}{end}" if self._numbered else ""

    def pane(self, name: str) -> Widget:
        """Return the pane with this name, a key of TITLES."""
        return self.query_one(f"#{name}")

    def choose(self, chosen: str) -> None:
        """Focus a pane, and show it if there is room for only one."""
        self.chosen = chosen
        for name in TITLES:
            self.pane(name).set_class(name == chosen, "-chosen")
        if chosen in BESIDE:
            for name in BESIDE:
                self.set_class(name == chosen, f"-{name}")
        self.query_one(PaneBar).show(TITLES, chosen)
        self.pane(chosen).focus()

    def draw(self, picture: Picture, feed: Session | Playback) -> None:
        """Draw the visible panes."""
        self._make_room(picture.watched.world_size(feed.preset))
        for name in TITLES:
            pane = self.pane(name)
            if pane.display and pane.region.height:
                self.draw_pane(pane, picture, feed)

    def draw_pane(self, pane: Widget, picture: Picture, feed: Session | Playback) -> None:
        """Draw one pane, visible or not."""
        watched, shown = picture.watched, picture.watched.shown
        if pane.id in OF_STEPS and (shown is not watched) != pane.has_class("-before"):
            pane.set_class(shown is not watched, "-before")
            before = f"previous trial: {shown.live.trial}" if shown is not watched else self._hint(pane.id)
            pane.border_subtitle = Content(before)  # text from a journal is not markup
        match pane:
            case RankTable():
                pane.show(watched, picture.states, watched.world_size(feed.preset))
            case Arrivals():
                pane.show(shown.judged or [*shown.joined][-1:], shown.culprit)
            case Timeline():
                pane.show([*shown.joined][-MOST_STEPS:])
            case LineChart():
                live = shown.live
                moment = (live.trial, live.repeat, live.status, bool(live.step), int(picture.now_ns / CHART_EVERY_NS))
                if moment != self._charted:
                    self._charted = moment
                    pane.show(losses(shown))
            case Where():
                pane.follow(shown, feed, self.query_one(RankTable).rank, picture.now_ns)
            case Comparison():
                pane.show(feed.results, feed.preset)
            case RankLog():
                rank, live = self.query_one(RankTable).rank, watched.live
                if live.trial is not None and feed.preset.kind == "command":
                    pane.border_title = self._title("log", "Output")
                    pane.show(feed.run.repeat_folder(live.trial, live.repeat) / LAUNCHER_LOG)
                elif rank is not None and live.trial is not None:
                    pane.border_title = self._title("log", f"Log of rank {rank}")
                    pane.show(feed.run.repeat_folder(live.trial, live.repeat) / f"rank-{rank}.log")
            case _:
                pass

    def _make_room(self, ranks: int) -> None:
        lines = max(1, min(ranks, MOST_LINES))  # a line per rank for the table and the timeline
        second_lines = lines if lines <= MOST_LINES // 2 else 0  # with few ranks, the timeline also has durations
        one_at_a_time = self.screen.has_class("-narrow") or self.screen.has_class("-short")
        rows = "1fr" if one_at_a_time else f"{lines + 3} 2fr {lines + second_lines + 4} 1fr"
        self.query_one("#grid").styles.grid_rows = rows  # Textual lays out the grid again only if the rows differ


def losses(watched: RunMonitor) -> list[Series]:
    """Return the loss curves of the first ranks, and the mean of all ranks."""
    ranks = sorted(watched.live.ranks.values(), key=lambda rank: rank.rank)
    few = len(ranks) <= FEW_CURVES
    curves = [
        Series(f"rank {rank.rank}", rank.losses.points, series_kind(rank.rank + 1) if few else "rank")
        for rank in ranks[:MOST_CURVES]
    ]
    mean = Series("mean", mean_of([rank.losses for rank in ranks]), "mean")
    return [*curves, mean] if len(ranks) > 1 else curves
