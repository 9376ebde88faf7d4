"""The Run screen of a running training run, or of its replay: ranks, waits, timeline, losses, results so far."""

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.events import ScreenResume
from textual.getters import query_one
from textual.widgets import Static

from ddptui.config.trial import Trial
from ddptui.live import headline, rank_states
from ddptui.run.playback import Playback
from ddptui.run.session import Session
from ddptui.tui.keys import bound
from ddptui.tui.screens.base import PanedScreen, pane_keys
from ddptui.tui.screens.delaying import DELAY_KEYS, Delaying
from ddptui.tui.screens.following import BACK_KEYS, REPLAY_KEYS, RUN_KEYS
from ddptui.tui.widgets.comparison import Comparison
from ddptui.tui.widgets.delay_bar import DelayBar
from ddptui.tui.widgets.frame import PaneBar, RunBar, TitleBar
from ddptui.tui.widgets.line_chart import LineChart
from ddptui.tui.widgets.panes import TITLES, Panes, Picture
from ddptui.tui.widgets.rank_table import RankTable
from ddptui.tui.widgets.replay_bar import ReplayBar
from ddptui.tui.widgets.where import Where

STEP = "Replay: go one step of all ranks forward or back, and pause"
TRIAL = "Replay: go to the first step of the next or the previous trial"
CHANGE = "Replay: go to the next or the previous change of delays by hand"
PLACE = "Replay: go to this many tenths of the run"


class RunScreen(PanedScreen, Delaying):
    """Follows a training run. When a run succeeds, its results replace this screen; a failed run stays visible."""

    CSS_PATH = "run.tcss"
    PURPOSE = "A running run: ranks, arrivals, timeline, loss, and the table so far."
    BINDINGS: ClassVar[list[BindingType]] = [
        *DELAY_KEYS,
        Binding("space", "hold", "Hold", tooltip="Freeze the screen while the run continues; in a replay: pause"),
        bound("stacks", "stacks", "Stacks", show=False, tooltip="Ask every rank where in its code it is, now"),
        *RUN_KEYS,
        bound("step", "step(1)", "Step", show=False, tooltip=STEP),
        bound("step_back", "step(-1)", "Step back", show=False, tooltip=STEP),
        bound("next", "launch(1)", "Trial", show=False, tooltip=TRIAL),
        bound("before", "launch(-1)", "Previous trial", show=False, tooltip=TRIAL),
        bound("delay", "change(1)", "Next change", show=False, tooltip=CHANGE),
        bound("no_delays", "change(-1)", "Previous change", show=False, tooltip=CHANGE),
        Binding("left", "seek(-5)", "Seek", show=False, key_display="← →", tooltip="Replay: go back 5 s"),
        Binding("right", "seek(5)", "Seek", show=False, tooltip="Replay: go forward 5 s"),
        *REPLAY_KEYS,
        Binding("enter", "results", "Results", tooltip="Show the results; ends a training that has no end"),
        bound("log_scale", "log_scale", "Log scale", show=False, tooltip="Switch the logarithmic scale on or off"),
        *BACK_KEYS,
        *pane_keys(TITLES),
        *(Binding(str(n), f"tenth({n})", "Place", show=False, key_display="0–9", tooltip=PLACE) for n in range(10)),
    ]
    SPARE_KEYS = ("faster(1)", "faster(-1)", "seek(-5)", "step(1)", "launch(1)", "change(1)")
    RUN_ACTIONS = (*Delaying.RUN_ACTIONS, "stacks")
    REPLAY_ACTIONS = (*Delaying.REPLAY_ACTIONS, "step", "launch", "tenth")

    feed: Session | Playback
    panes = query_one(Panes)

    def __init__(self, feed: Session | Playback) -> None:
        super().__init__(feed)
        self.held = False
        self._trial: Trial | None = None  # the trial when the bindings were last refreshed: they depend on it
        self._results_due = False  # show the results when the open dialog closes: its answer needs this screen
        self._picture: Picture | None = None  # the data that was drawn last

    @property
    def explained(self) -> dict[str, Sequence[tuple[str, str]]]:
        return {
            "Columns of the ranks": self.query_one(RankTable).explained,
            "Columns of the results": self.query_one(Comparison).explained,
        }

    def compose_content(self) -> ComposeResult:
        yield ReplayBar(self.feed.seek_share) if isinstance(self.feed, Playback) else RunBar()
        yield Static(id="now", markup=False)
        yield from self.compose_damage()
        yield DelayBar()
        yield PaneBar()
        yield Panes(numbered=not isinstance(self.feed, Playback))  # in a replay, digits choose a place in the run

    def on_mount(self) -> None:
        self.query_one(Comparison).usual = self.console_app.settings.columns

    def tick(self) -> None:
        super().tick()
        self._show_due_results()

    def on_screen_resume(self, event: ScreenResume) -> None:
        self._show_due_results()  # at once, since until the next tick a key would act on a finished run

    def _show_due_results(self) -> None:
        if self._results_due and self.app.screen is self:
            self._results_due = False
            self.action_results()

    def draw(self) -> None:
        if not self.held or self._picture is None:
            self._draw_now()

    def _draw_now(self) -> None:
        self._picture = picture = self._look()  # shared by header and panes, so that they agree
        sentence = self.feed.error or headline.sentence(self.watched, picture.states, self.feed.preset, picture.now_ns)
        self.query_one("#now", Static).update(Content(sentence), layout=False)  # a layout would triple the cost
        parts = ["on hold: space continues" if self.held else "", headline.checks(self.watched)]
        parts.append(headline.steps(self.watched.live))
        self.query_one(TitleBar).show(self.place(), self.progress(self.feed, picture.now_ns, *parts))
        self.panes.draw(picture, self.feed)
        if (trial := self.trial_under_way()) is not self._trial:
            self._trial = trial
            self.refresh_bindings()
        if isinstance(self.feed, Playback):
            course = self.feed.course
            share = course.share(picture.now_ns)
            firsts, changes = (list(map(course.share, marks)) for marks in (course.firsts_ns, course.changes_ns))
            self.query_one(ReplayBar).show(share, firsts, changes, self.pace())
        if isinstance(self.feed, Session):
            live, preset = self.watched.live, self.feed.preset
            launches = headline.launches(preset, live)
            self.query_one(RunBar).show(headline.part_done(preset, live) if launches > 1 else None)
            self.show_delay()

    def _look(self) -> Picture:
        now_ns = self.ended_ns or self.feed.now_ns()
        self.watched.look(now_ns, at_once=isinstance(self.feed, Playback) and self.feed.paused)
        waits_for = self.watched.judgement.waits_for if self.watched.judgement else {}
        return Picture(self.watched, rank_states.states(self.watched.live, waits_for, now_ns), now_ns)

    def end(self, session: Session) -> None:
        super().end(session)
        self._draw_now()  # even on hold: the user must not miss the end
        self._results_due = session.results.status == "ok"

    def announce_end(self, status: str) -> None:
        self.notify("Enter shows the results.", title=f"The run has ended: {status}", timeout=5)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        match action:
            case "hold":
                return not self.is_over
            case "results":
                return not self.goes_on or self._is_until_stopped()
            case "change":
                return isinstance(self.feed, Playback) and bool(self.feed.course.changes_ns)
            case _:
                return super().check_action(action, parameters)

    def action_hold(self) -> None:
        if isinstance(self.feed, Playback):
            super().action_hold()
        else:
            self.held = not self.held
            self._draw_now()

    def _is_until_stopped(self) -> bool:
        trial = self.trial_under_way()
        has_begun = isinstance(self.feed, Session) and self.watched.live.trial is not None
        return has_begun and trial is not None and trial.trains_until_stopped

    def on_data_table_row_selected(self) -> None:
        # A table turns enter into this message. A click on a row does the same, but must not end a training.
        if not self.goes_on and self.check_action("results", ()):
            self.action_results()

    def action_results(self) -> None:
        if isinstance(self.feed, Session) and self.goes_on:
            live, controls = self.watched.live, self.feed.controls
            is_last = headline.launches(self.feed.preset, live) - live.finished <= 1
            then = "its results appear" if is_last else "the next trial follows"
            said = f"The training ends after one of its next steps; then {then}."
            if is_last:
                controls.stop()
                self.notify(said, timeout=3)
            else:
                self.skip(live.launched_ns, said)
        elif isinstance(self.feed, Session):
            self.console_app.show_results(self.feed)
        else:
            self.console_app.open_run(self.feed.run)  # the whole run, wherever the replay is

    def action_step(self, by: int) -> None:
        if isinstance(self.feed, Playback):
            self.feed.step(by)
            if not self.feed.restarted:  # otherwise the next tick rebuilds the state, once for all keys until then
                self.tick()

    def action_launch(self, by: int) -> None:
        if isinstance(self.feed, Playback) and not self.feed.seek_launch(by):
            self.notify("This is the last trial." if by > 0 else "This is the first trial.", title="Replay", timeout=3)

    def action_change(self, by: int) -> None:
        if isinstance(self.feed, Playback) and not self.feed.seek_change(by):
            which = "last" if by > 0 else "first"
            self.notify(f"This is the {which} change of delays.", title="Replay", timeout=3)

    def action_tenth(self, tenths: int) -> None:
        if isinstance(self.feed, Playback):
            self.feed.seek_share(tenths / 10)

    def action_pane(self, name: str) -> None:
        super().action_pane(name)  # and draw only this one, so that it appears at once
        self.panes.draw_pane(self.panes.pane(name), self._picture or self._look(), self.feed)

    def action_stacks(self) -> None:
        if isinstance(self.feed, Session) and self.watched.live.status == "running":
            self.feed.controls.ask_for_stacks(self.watched.live.launched_ns)
            self.action_pane("where")
            self.query_one(Where).border_subtitle = "asked: each rank answers with its stack"  # a toast would cover it

    def action_log_scale(self) -> None:
        chart = self.query_one(LineChart)
        chart.logarithmic = not chart.logarithmic
