"""A training run as it goes, or as it went: ranks, who waits for whom, timeline, losses, results so far."""

from collections.abc import Sequence
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.events import ScreenResume
from textual.widgets import Static

from ddptui.live import headline, rank_states
from ddptui.run.playback import Playback
from ddptui.run.session import Session
from ddptui.tui.screens.base import ZOOM_KEY
from ddptui.tui.screens.following import BACK_KEYS, REPLAY_KEYS, RUN_KEYS, Following
from ddptui.tui.screens.inject import Inject, can_still_come
from ddptui.tui.widgets.comparison import Comparison
from ddptui.tui.widgets.frame import TitleBar
from ddptui.tui.widgets.line_chart import LineChart
from ddptui.tui.widgets.panes import TITLES, Panes, Picture
from ddptui.tui.widgets.rank_table import RankTable
from ddptui.wire.records import Message


class RunScreen(Following):
    """Follows a training run. A run that ends well is replaced by its results; a failed one stays, to be read."""

    CSS_PATH = "run.tcss"
    PURPOSE = "A run as it goes: ranks, arrivals, timeline, loss, and the table so far."
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("b", "inject", "Inject", tooltip="Put a delay in, or take it out, while the trial runs"),
        Binding("space", "hold", "Hold", tooltip="Hold the picture while the run goes on; a replay stands still"),
        *RUN_KEYS,
        Binding("left", "seek(-5)", "Seek", key_display="← →", tooltip="Replay: go 5 s back"),
        Binding("right", "seek(5)", "Seek", show=False, tooltip="Replay: go 5 s on"),
        *REPLAY_KEYS,
        Binding("full_stop", "step", "Step", key_display=".", show=False, tooltip="Replay: on to the next step"),
        Binding("enter", "results", "Results", tooltip="The results, once the run is over"),
        Binding("y", "log_scale", "Log scale", show=False, tooltip="The loss on a logarithmic scale, and back"),
        ZOOM_KEY,
        *BACK_KEYS,
        *(Binding(str(n), f"pane('{name}')", title, show=False) for n, (name, title) in enumerate(TITLES.items(), 1)),
    ]
    RUN_ACTIONS = (*Following.RUN_ACTIONS, "inject")
    REPLAY_ACTIONS = (*Following.REPLAY_ACTIONS, "step")

    feed: Session | Playback

    def __init__(self, feed: Session | Playback) -> None:
        super().__init__(feed)
        self.held = False
        self._results_due = False  # they wait for a dialog to close, whose answer would be lost with this screen
        self._picture: Picture | None = None  # the last one that was drawn

    @property
    def explained(self) -> dict[str, Sequence[tuple[str, str]]]:
        return {
            "Columns of the ranks": self.query_one(RankTable).explained,
            "Columns of the results": self.query_one(Comparison).explained,
        }

    def compose_content(self) -> ComposeResult:
        yield Static(id="now", markup=False)
        yield from self.compose_damage()
        yield Panes()

    def on_mount(self) -> None:
        self.query_one(Comparison).usual = self.console_app.settings.columns

    def tick(self) -> None:
        super().tick()
        self._show_due_results()

    def on_screen_resume(self, event: ScreenResume) -> None:
        self._show_due_results()  # now: until the next tick, a key would still act on a run that is over

    def _show_due_results(self) -> None:
        if self._results_due and self.app.screen is self:
            self._results_due = False
            self.action_results()

    def take_in(self, messages: Sequence[Message], *, restarted: bool) -> None:
        if isinstance(self.feed, Playback):
            self.feed.keep(self.watched.live)

    def draw(self) -> None:
        if not self.held or self._picture is None:
            self._draw_now()

    def _draw_now(self) -> None:
        self._picture = picture = self._look()  # one for header and panes: they cannot contradict each other
        sentence = self.feed.error or headline.sentence(self.watched, picture.states, self.feed.preset, picture.now_ns)
        self.query_one("#now", Static).update(Content(sentence), layout=False)  # a layout costs three times as much
        parts = ["held: space goes on" if self.held else "", headline.steps(self.watched.live)]
        self.query_one(TitleBar).show(self.place(), self.progress(self.feed, picture.now_ns, *parts))
        self.query_one(Panes).draw(picture, self.feed)

    def _look(self) -> Picture:
        now_ns = self.ended_ns or self.feed.now_ns()
        self.watched.look(now_ns)
        states = rank_states.states(self.watched.live, self.watched.latest, now_ns)
        return Picture(self.watched, states, now_ns)

    def end(self, session: Session) -> None:
        super().end(session)
        self._draw_now()  # even if the picture is held: an end must not be missed
        self._results_due = session.results.status == "ok"

    def announce_end(self, status: str) -> None:
        self.notify("Enter shows the results.", title=f"The run has ended: {status}", timeout=5)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        match action:
            case "hold":
                return not self.is_over
            case "results":
                return not self.goes_on
            case _:
                return super().check_action(action, parameters)

    def action_hold(self) -> None:
        if isinstance(self.feed, Playback):
            super().action_hold()
        else:
            self.held = not self.held
            self._draw_now()

    @work
    async def action_inject(self) -> None:
        """Ask for delays, and send them to the ranks of this launch, if it still runs then."""
        trial, live = self.trial_under_way(), self.watched.live
        if trial is None or not isinstance(self.feed, Session):
            return
        launch = live.trial, live.repeat  # by the time the user has answered, another one may be under way
        delays = trial.bottleneck if live.injected is None else live.injected  # injected ones replace the preset's
        wanted = await self.app.push_screen_wait(
            Inject(trial, can_still_come(delays), self.watched.world_size(self.feed.preset))
        )
        if wanted is None:
            return
        live = self.watched.live
        if self.goes_on and live.status == "running" and (live.trial, live.repeat) == launch:
            self.feed.controls.inject(wanted)
        else:
            self.app.notify(f"Trial {trial.name} has ended.", title="Not injected", severity="warning", markup=False)

    def on_data_table_row_selected(self) -> None:
        if self.check_action("results", ()):  # a table takes enter for itself
            self.action_results()

    def action_results(self) -> None:
        if isinstance(self.feed, Session):
            self.console_app.show_results(self.feed)
        else:
            self.console_app.open_run(self.feed.run)  # all of it, wherever the replay is

    def action_step(self) -> None:
        if isinstance(self.feed, Playback):
            self.feed.step()
            self.tick()

    def action_pane(self, name: str) -> None:
        """Choose a pane, and draw it without the others, so that it shows at once."""
        panes = self.query_one(Panes)
        panes.choose(name)
        self.keep_zoomed()
        panes.draw_pane(panes.pane(name), self._picture or self._look(), self.feed)

    def action_log_scale(self) -> None:
        chart = self.query_one(LineChart)
        chart.logarithmic = not chart.logarithmic
