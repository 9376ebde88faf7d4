"""The curves of all trials of a run, or of two runs as one, in one chart: the loss, or the time of a step."""

from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from string import ascii_lowercase
from typing import ClassVar, NamedTuple

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.content import Content
from textual.getters import query_one
from textual.widget import Widget
from textual.widgets.option_list import Option

from ddptui.analysis.results import TrialResult
from ddptui.live.curves import TrialCurves
from ddptui.live.state import Point
from ddptui.report.rows import loss_of, median_of, status_of, step_ms
from ddptui.run.compare import curves_of
from ddptui.store.runs import RunError
from ddptui.text.drawing import series_kind
from ddptui.tui.background import in_background
from ddptui.tui.keys import bound
from ddptui.tui.screens.base import ZOOM_KEY, EndedRun, LabScreen
from ddptui.tui.widgets.charts import STYLES, Across, LineChart, Series
from ddptui.tui.widgets.frame import TitleBar
from ddptui.tui.widgets.lists import Chooser, TwoEnds

MARKS = "123456789" + ascii_lowercase  # of the trials, in order; further ones have none


class Figure(NamedTuple):
    """What the chart shows: its title, a trial's curve, and its figure in the table, with the name of that."""

    title: str  # {}: the steps of which a point is the median
    points: Callable[[TrialCurves], Sequence[Point]]
    column: str
    value: Callable[[TrialResult], str]


def _loss(trial: TrialResult) -> str:
    loss = loss_of(trial)
    return "not finite" if loss is None else f"{loss:.3f}"


FIGURES = (
    Figure("Loss, mean over ranks", attrgetter("loss"), "loss at the end", _loss),
    Figure(
        "Step time in ms, median over {}all ranks",
        attrgetter("step_ms"),
        "step ms",
        lambda trial: median_of(trial, step_ms, ".2f"),
    ),
)


class CurvesScreen(LabScreen):
    """Reads the journals of all trials in a thread, one after the other. A trial's curve appears when it is read."""

    CSS_PATH = "curves.tcss"
    PURPOSE = (
        "The loss, or the step time, of all trials in one chart. Each line has the number of its trial. The figure"
        " beside a trial is the one in the table. Of several repeats, a curve is the median over those that count."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        bound("figure", "figure", "Figure", tooltip="Show the loss, or the step time"),
        Binding("space", "put", "Show/hide", tooltip="Show or hide the trial under the cursor"),
        bound("axis", "across", "x axis", show=False, tooltip="Show steps, or seconds since the first step began"),
        bound("log_scale", "log_scale", "Log scale", show=False, tooltip="Switch the logarithmic scale on or off"),
        Binding("enter", "only", "Only this", show=False, tooltip="Hide all others, or show all", priority=True),
        ZOOM_KEY,
        Binding("escape", "app.pop_screen", "Back"),
        bound("curves", "app.pop_screen", "Back", show=False),
    ]
    SPARE_KEYS = ("across", "log_scale", "only", "zoom")
    _chart = query_one(LineChart)
    _trials = query_one(Chooser)

    def __init__(self, ended: EndedRun) -> None:
        super().__init__()
        self._ended = ended
        self._entries = ended.results.trials
        self._numbers = range(len(self._entries))
        self._read: dict[int, TrialCurves] = {}  # by the number of their trial
        self._hidden: set[int] = set()
        self._figure = FIGURES[0]
        self._across: Across = "steps"

    def compose_content(self) -> ComposeResult:
        with Container(id="body"):
            yield LineChart(id="chart", classes="pane -chosen")
            yield Chooser(*(Option("", str(number)) for number in self._numbers), id="trials", classes="pane")

    def on_mount(self) -> None:
        self.query_one(TitleBar).shown = f"{self._ended.preset.name} ▸ curves", self._ended.run.name
        self.watch(self, "maximized", self._give_legend)
        self._trials.focus()
        self._show()
        self._read_all()

    @work
    async def _read_all(self) -> None:
        for number, trial in enumerate(self._entries):
            try:  # until the user leaves the screen
                read = await in_background(partial(curves_of, self._ended.run, trial, lambda: self.is_running))
            except RunError as error:
                read = TrialCurves()
                self.console_app.complain("Cannot be read", str(error))
            self._read[number] = read
            self._show()

    @on(Chooser.OptionHighlighted)
    def _show(self) -> None:
        """Update the chart, with the line under the cursor on top, and the list."""
        chart, trials = self._chart, self._trials
        is_reading = len(self._read) < len(self._entries)
        most = max((curves.bucket for curves in self._read.values()), default=1)
        chart.border_title = self._figure.title.format(f"up to {most} steps of " * (most > 1))
        chart.border_subtitle = f"reading {len(self._read) + 1} of {len(self._entries)} …" if is_reading else ""
        shown = [number for number in self._numbers if number not in self._hidden]
        chart.show(
            [self._series(number) for number in shown],
            self._across,
            top=shown.index(trials.highlighted) if trials.highlighted in shown else None,
            empty="reading the steps …" if is_reading else "no steps to show",
        )
        trials.border_title = f"Trials: {self._figure.column}"
        for number in self._numbers:
            trials.replace_option_prompt_at_index(number, self._line(number))

    def _series(self, number: int) -> Series:
        curves = self._read.get(number, TrialCurves())
        points = self._figure.points(curves)
        drawn = points if self._across == "steps" else curves.over_seconds(points)
        name, mark = self._entries[number].name, MARKS[number : number + 1]
        return Series(name, drawn, series_kind(number), mark, self._value(number))

    def _line(self, number: int) -> TwoEnds:
        is_shown = number not in self._hidden
        is_chosen = number == self._trials.highlighted  # the cursor's background may have the line's color
        color = "" if is_chosen else STYLES[series_kind(number)]
        mark = (f"{MARKS[number : number + 1]:1}━", color)
        line = Content.assemble(f"{'✓' if is_shown else ' '} ", mark, f" {self._entries[number].name}")
        return TwoEnds(line if is_shown else line.stylize("dim"), Content.styled(self._value(number), "dim"))

    def _value(self, number: int) -> str:
        """The trial's figure in the table; or why there is no curve."""
        trial, curves = self._entries[number], self._read.get(number)
        if curves is None or not curves.repeats:
            return "…" if curves is None else "no step recorded"
        return self._figure.value(trial) if trial.repeats else status_of(trial)

    def _give_legend(self, maximized: Widget | None) -> None:
        """Show a legend in the chart if it is zoomed, since the list is hidden then."""
        self._chart.has_legend = maximized is not None
        self._chart.redraw()

    def action_figure(self) -> None:
        self._figure = FIGURES[1 - FIGURES.index(self._figure)]
        self._show()

    def action_across(self) -> None:
        self._across = "seconds" if self._across == "steps" else "steps"
        self._show()

    def action_log_scale(self) -> None:
        self._chart.logarithmic = not self._chart.logarithmic
        self._chart.redraw()

    @on(Chooser.OptionSelected)  # by a click: enter has another action
    def action_put(self) -> None:
        if (number := self._trials.highlighted) is not None:
            self._hidden ^= {number}
            self._show()

    def action_only(self) -> None:
        if (number := self._trials.highlighted) is not None:
            others = {*self._numbers} - {number}
            self._hidden = set() if self._hidden == others else others
            self._show()
