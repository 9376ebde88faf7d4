"""The panes of the Run screen: a grid, or one at a time; the line of injected delays; the view for a lecture hall.

Only visible panes are drawn.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple

from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Log, Static

from ddptui.analysis.waits import AlignedStep
from ddptui.config.checks import Delays, delay_of
from ddptui.config.trial import Site
from ddptui.config.values import describe_bottleneck
from ddptui.engines.base import LAUNCHER_LOG
from ddptui.live.monitor import RunMonitor
from ddptui.live.state import mean_of
from ddptui.run.playback import Playback
from ddptui.run.runner import Session
from ddptui.store.journal import LogTail
from ddptui.text.drawing import Line, cell_len, large, paragraph, series_kind
from ddptui.text.words import MS, S, seconds
from ddptui.tui.background import in_background
from ddptui.tui.keys import clickable, name_of
from ddptui.tui.widgets.charts import Canvas, LineChart, Series
from ddptui.tui.widgets.frame import PaneGrid
from ddptui.tui.widgets.lists import SCROLL_KEYS
from ddptui.tui.widgets.rank_panes import MOST_STEPS, Arrivals, LargeArrivals, RankTable, Timeline
from ddptui.tui.widgets.result_panes import Comparison
from ddptui.tui.widgets.texts import WherePane

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
ROWS = (("ranks",), ("arrivals", "loss"), ("timeline",), ("so-far", "where", "log"))
BESIDE = ("so-far", "where", "log")  # panes that share a place
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
        lines = await in_background(tail.new_lines)  # a hanging disk must not stop the console
        if tail is self._tail:  # otherwise the pane shows another log by now
            self._read = None
            self.write_lines(lines)


class Panes(PaneGrid):
    """Holds all panes of the Run screen. A watched training's output has a place of its own."""

    TITLES = TITLES
    AT_FIRST = ("ranks", "so-far", "where")
    content: Sequence[str] = ("ranks", "arrivals", "timeline", "loss")
    _is_command = False
    _ranks = 1
    _charted: tuple[object, ...] = ()

    def compose(self) -> ComposeResult:  # in the order of the grid
        yield RankTable(id="ranks", classes="pane")
        yield Arrivals(id="arrivals", classes="pane")
        yield LineChart(id="loss", classes="pane")
        yield Timeline(id="timeline", classes="pane")
        yield Comparison(id="so-far", classes="pane", growing=True)
        yield WherePane(id="where", classes="pane")
        yield RankLog(id="log", classes="pane", max_lines=MOST_LOG_LINES)

    def lay_out(self, shown: Sequence[str]) -> str:
        rows = [row for names in ROWS if (row := [name for name in names if name in shown])]
        for row in rows:
            for name, columns in zip(row, (4, 2) if row == ["arrivals", "loss"] else [6 // len(row)] * 2, strict=False):
                self.pane(name).styles.column_span = columns
        lines = max(1, min(self._ranks, MOST_LINES))  # a line per rank for the table and the timeline
        second_lines = lines if lines <= MOST_LINES // 2 else 0  # with few ranks, the timeline also has durations
        heights = {"ranks": f"{lines + 3}", "arrivals": "2fr", "loss": "2fr", "timeline": f"{lines + second_lines + 4}"}
        return "1fr" if self.is_crowded else " ".join(heights.get(row[0], "1fr") for row in rows)

    def draw(self, picture: Picture, feed: Session | Playback) -> None:
        """Draw the visible panes."""
        watched, shown = picture.watched, picture.watched.shown
        live = shown.live
        self._is_command, self._ranks = feed.preset.kind == "command", watched.world_size(feed.preset)
        self.titles["log"] = "Output" if self._is_command else TITLES["log"]
        self.sharing = BESIDE[: 2 if self._is_command else 3]
        are_steps_certain = bool(live.step) or not self._is_command  # a command may take its time, or train nothing
        has_losses = any(rank.losses.points for rank in live.ranks.values())
        content = {
            "ranks": True,
            "arrivals": are_steps_certain and self._ranks > 1,
            "timeline": are_steps_certain,
            "loss": are_steps_certain and (has_losses or not live.step),
            "so-far": len(feed.preset.trials) > 1 and any(trial.status != "skipped" for trial in feed.results.trials),
            "log": watched.live.trial is not None and (self._is_command or self.query_one(RankTable).rank is not None),
            "where": watched.live.stood or (shown.joined and live.lines),
        }
        self.content = [name for name, is_there in content.items() if is_there]
        self.make_room()
        for name in TITLES:
            if (pane := self.pane(name)).display:
                self.draw_pane(pane, picture, feed)

    def draw_pane(self, pane: Widget, picture: Picture, feed: Session | Playback) -> None:
        """Draw one pane, visible or not."""
        watched, shown = picture.watched, picture.watched.shown
        if pane.id in OF_STEPS and (shown is not watched) != pane.has_class("-before"):
            pane.set_class(shown is not watched, "-before")
            before = f"previous trial: {shown.live.trial}" if shown is not watched else ""
            pane.border_subtitle = Content(before)  # text from a journal is not markup
        rank, live = self.query_one(RankTable).rank, watched.live
        match pane:
            case RankTable():
                pane.show(watched, picture.states, self._ranks)
            case Arrivals():
                pane.show(*last_arrivals(shown))
            case Timeline():
                pane.show([*shown.joined][-MOST_STEPS:])
            case LineChart():
                of = shown.live
                moment = (of.trial, of.repeat, of.status, bool(of.step), int(picture.now_ns / CHART_EVERY_NS))
                if moment != self._charted:
                    self._charted = moment
                    pane.show(losses(shown))
            case WherePane():
                pane.follow(shown, feed, rank, picture.now_ns)
            case Comparison():
                pane.show(feed.results, feed.preset)
            case RankLog() if live.trial is not None and (self._is_command or rank is not None):
                file = LAUNCHER_LOG if self._is_command else f"rank-{rank}.log"
                pane.border_subtitle = "" if self._is_command else f"rank {rank}"
                pane.show(feed.run.repeat_folder(live.trial, live.repeat) / file)


def last_arrivals(shown: RunMonitor) -> tuple[Sequence[AlignedStep], int | None]:
    """Return the steps whose arrivals are drawn, and the late rank that their judgement names."""
    return shown.judged or [*shown.joined][-1:], shown.culprit


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


class DelayBar(Static):
    """Shows the chosen delay, whether the rank has it, and its keys. A click on a part acts like its key."""

    DEFAULT_CSS = "DelayBar { height: 1; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; display: none; }"

    def show(self, rank: int | None, at: Site, sleep_ms: float, delays: Delays) -> None:
        """Show the chosen delay. `rank`: None before a rank has connected; `delays`: the delays that the ranks have."""
        if rank is None:
            wait = f"{name_of('delay', self.app)} delays a rank, once one has connected"
            return self.update(Content.styled(wait, "dim"), layout=False)
        has_it = delay_of(delays, rank, at) is not None
        length = seconds(sleep_ms * MS / S)
        parts = [
            self._part("delay", "remove" if has_it else "inject", "delay"),
            clickable("↑↓", f"rank {rank}", "rank(1)"),
            self._part("where", at, "where"),
            Content.assemble(self._part("less", "", "longer(-1)"), self._part("more", length, "longer(1)")),
        ]
        if delays:  # the last part may be cut off; the sentence above has it, too
            parts += [
                self._part("no_delays", "remove all", "no_delays"),
                self._part("save", "save", "save"),
                Content.styled(f"now: {describe_bottleneck(delays)}", "bold"),
            ]
        self.update(Content("  ").join(parts), layout=False)

    def _part(self, means: str, what: str, action: str) -> Content:
        return clickable(name_of(means, self.app), what, action)


ENDS = [re.compile(end) for end in (r"; | · |\. ", ": ")]  # where the part in large letters may end, the longest first


class Headline(Canvas):
    """Draws a sentence centered: its first part in large letters, if they fit, and the rest below."""

    _sentence = ""

    def show(self, sentence: str) -> None:
        """Draw this sentence."""
        if sentence != self._sentence:
            self._sentence = sentence
            self.redraw()

    def draw(self, width: int, height: int) -> Sequence[Line]:
        lines = _centered(self._sentence, width)
        for end in ENDS:
            first, *rest = end.split(self._sentence, maxsplit=1)
            below = _centered(" ".join(rest), width)
            if drawn := large(first, width, height - len(below)):
                lines = [*drawn, *below]
                break
        return [*[[]] * ((height - len(lines)) // 2), *([(line, "strong")] for line in lines)]


def _centered(words: str, width: int) -> list[str]:
    return [" " * ((width - cell_len(line)) // 2) + line for line in paragraph(words, width)]


class Lecture(Vertical):
    """The headline, and below it the arrivals in bars that fill the rest."""

    DEFAULT_CSS = (
        "Lecture { display: none; layer: lecture; dock: top; height: 100%; padding: 0 1; background: $background; }"
    )

    def compose(self) -> ComposeResult:
        yield Headline()
        yield LargeArrivals()

    def show(self, sentence: str, watched: RunMonitor) -> None:
        """Draw the headline and the last arrivals, dimmed if they are the previous trial's."""
        self.query_one(Headline).show(sentence)
        arrivals = self.query_one(LargeArrivals)
        arrivals.set_class(watched.shown is not watched, "-before")
        arrivals.show(*last_arrivals(watched.shown))
