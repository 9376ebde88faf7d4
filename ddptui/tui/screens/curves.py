"""The curves of all trials of a run, or of two runs as one, in one chart: the loss, or the time of a step."""

from collections.abc import Mapping
from functools import partial
from string import ascii_lowercase
from threading import Event
from typing import ClassVar, Literal

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.content import Content
from textual.getters import query_one
from textual.widget import Widget
from textual.widgets.option_list import Option

from ddptui.live.curves import TrialCurves
from ddptui.report.rows import loss_of, median_of, status_of, step_ms
from ddptui.run.curves import curves_of
from ddptui.store.runs import RunError
from ddptui.text.drawing import series_kind
from ddptui.text.words import count
from ddptui.tui.background import in_background
from ddptui.tui.keys import bound
from ddptui.tui.screens.base import ZOOM_KEY, EndedRun, LabScreen
from ddptui.tui.widgets.canvas import SERIES_COLORS
from ddptui.tui.widgets.frame import TitleBar
from ddptui.tui.widgets.line_chart import Across, LineChart, Series
from ddptui.tui.widgets.lists import Chooser, TwoEnds

Figure = Literal["loss", "step time"]
MARKS = "123456789" + ascii_lowercase
FIGURE_OF_TABLE: Mapping[Figure, str] = {"loss": "loss at the end", "step time": "step ms"}
OF_REPEATS = "the median over the repeats that count"


class CurvesScreen(LabScreen):
    """Reads the journals of all trials in a thread, one after the other. A trial's curve appears when it is read."""

    CSS_PATH = "curves.tcss"
    PURPOSE = (
        "The loss, or the step time, of all trials in one chart. Each line has the number of its trial. The figure"
        " beside a trial is the one in the table."
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
        self._read: dict[int, TrialCurves] = {}  # by the number of their trial
        self._out: set[int] = set()  # trials that do not show
        self._figure: Figure = "loss"
        self._across: Across = "steps"
        self._logarithmic: dict[Figure, bool] = {"loss": False, "step time": False}
        self._left = Event()  # set when the screen closes

    def compose_content(self) -> ComposeResult:
        with Container(id="body"):
            yield LineChart(id="chart", classes="pane -chosen")
            yield Chooser(*(Option("", str(number)) for number in range(len(self._entries))), id="trials")

    def on_mount(self) -> None:
        self.query_one(TitleBar).show(f"{self._ended.preset.name} ▸ curves", self._ended.run.name)
        self.watch(self, "maximized", self._give_legend)
        self._trials.focus()
        self._show()
        self._read_all()

    def on_unmount(self) -> None:
        self._left.set()

    @work
    async def _read_all(self) -> None:
        for number, trial in enumerate(self._entries):
            try:
                self._read[number] = await in_background(
                    partial(curves_of, self._ended.run, trial, lambda: not self._left.is_set())
                )
            except RunError as error:
                self._read[number] = TrialCurves()
                self.console_app.complain("Cannot be read", str(error))
            self._show()

    @on(Chooser.OptionHighlighted)
    def _show(self) -> None:
        """Update the chart, its titles, and the list."""
        self._draw()
        chart, trials = self._chart, self._trials
        chart.border_title = Content(self._title())
        chart.border_subtitle = Content(self._subtitle())
        trials.border_title = Content(f"Trials: {FIGURE_OF_TABLE[self._figure]}")
        trials.border_subtitle = Content(f"{len(self._entries) - len(self._out)} of {len(self._entries)} shown")
        for number in range(len(self._entries)):
            trials.replace_option_prompt_at_index(number, self._line(number))

    def _draw(self) -> None:
        """Draw the lines, with the one under the cursor on top."""
        chart = self._chart
        shown = [number for number in range(len(self._entries)) if number not in self._out]
        top = self._trials.highlighted
        chart.logarithmic = self._logarithmic[self._figure]
        chart.show(
            [self._series(number) for number in shown],
            self._across,
            top=shown.index(top) if top in shown else None,
            empty=self._why_empty(),
        )

    def _series(self, number: int) -> Series:
        curves = self._read.get(number, TrialCurves())
        points = curves.loss if self._figure == "loss" else curves.step_ms
        drawn = points if self._across == "steps" else curves.over_seconds(points)
        return Series(self._entries[number].name, drawn, series_kind(number), _mark(number), self._said(number))

    def _title(self) -> str:
        if self._figure == "loss":
            return "Loss, mean over ranks"
        buckets = sorted({curves.bucket for curves in self._read.values() if curves.step_ms}) or [1]
        steps = str(buckets[0]) if len(buckets) == 1 else f"{buckets[0]} to {buckets[-1]}"
        return f"Step time in ms, median over {'' if buckets == [1] else f'{steps} steps of '}all ranks"

    def _subtitle(self) -> str:
        if len(self._read) < len(self._entries):
            return f"reading {len(self._read) + 1} of {len(self._entries)} …"
        return OF_REPEATS if any(curves.repeats > 1 for curves in self._read.values()) else ""

    def _why_empty(self) -> str:
        if len(self._out) == len(self._entries):
            return "all trials are hidden: space shows one"
        if len(self._read) < len(self._entries):
            return f"reading the steps of {count(len(self._entries), 'trial')} …"
        return "no step was recorded"

    def _line(self, number: int) -> TwoEnds:
        is_in = number not in self._out
        is_chosen = number == self._trials.highlighted  # the cursor's background may have the line's color
        color = "" if is_chosen else SERIES_COLORS[series_kind(number)]
        name = self._entries[number].name
        mark = Content.assemble(f"{'✓' if is_in else ' '} ", (f"{_mark(number):1}━", color), f" {name}")
        return TwoEnds(mark if is_in else mark.stylize("dim"), Content.styled(self._said(number), "dim"))

    def _said(self, number: int) -> str:
        """The trial's figure in the table; or why there is no curve."""
        trial, curves = self._entries[number], self._read.get(number)
        if curves is None:
            return "…"
        if not curves.repeats:
            return "no step recorded"
        if not trial.repeats:
            return status_of(trial)
        if self._figure == "step time":
            return median_of(trial, step_ms, ".2f")
        loss = loss_of(trial)
        return "not finite" if loss is None else f"{loss:.3f}"

    def _give_legend(self, maximized: Widget | None) -> None:
        """Show a legend in the chart if it is zoomed, since the list is hidden then."""
        self._chart.has_legend = maximized is not None

    def action_figure(self) -> None:
        self._figure = "step time" if self._figure == "loss" else "loss"
        self._show()

    def action_across(self) -> None:
        self._across = "seconds" if self._across == "steps" else "steps"
        self._show()

    def action_log_scale(self) -> None:
        self._logarithmic[self._figure] = not self._logarithmic[self._figure]
        self._show()

    @on(Chooser.OptionSelected)  # by a click: enter has another action
    def action_put(self) -> None:
        if (number := self._trials.highlighted) is not None:
            self._out ^= {number}
            self._show()

    def action_only(self) -> None:
        if (number := self._trials.highlighted) is not None:
            others = {*range(len(self._entries))} - {number}
            self._out = set() if self._out == others else others
            self._show()


def _mark(number: int) -> str:
    return MARKS[number] if number < len(MARKS) else ""
