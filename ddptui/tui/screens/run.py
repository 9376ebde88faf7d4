"""A run as it goes: who is how far, who waits for whom, what it has come to so far. Of a run on disk, as it went."""

from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.reactive import reactive
from textual.widgets import Static

from ddptui.config.trial import Trial
from ddptui.live import headline, progress, rank_states
from ddptui.live.monitor import RunMonitor
from ddptui.run.playback import Playback
from ddptui.run.session import Session
from ddptui.text.units import S
from ddptui.tui.injection import can_still_come
from ddptui.tui.screens.base import LabScreen
from ddptui.tui.screens.confirm import Confirm
from ddptui.tui.screens.inject import Inject
from ddptui.tui.screens.tell import tell
from ddptui.tui.widgets.line_chart import LineChart
from ddptui.tui.widgets.panes import TITLES, Panes
from ddptui.tui.widgets.title_bar import TitleBar

OF_A_RUN = ("inject", "skip", "stop", "leave_run")
OF_A_REPLAY = ("faster", "seek", "step")


class RunScreen(LabScreen):
    CSS_PATH = "run.tcss"
    PURPOSE = "A run as it goes: ranks, arrivals, timeline, loss, and the table so far."
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("b", "inject", "Inject", tooltip="Put a delay in, or take it out, while the trial runs"),
        Binding("space", "hold", "Hold", tooltip="Hold the picture while the run goes on; a replay stands still"),
        Binding("s", "skip", "Skip", tooltip="End this trial, and go on to the next"),
        Binding("x", "stop", "Stop", tooltip="Stop the run; what is finished is kept"),
        Binding("left", "seek(-5)", "Seek", key_display="← →", tooltip="Replay: go 5 s back"),
        Binding("right", "seek(5)", "Seek", show=False, tooltip="Replay: go 5 s on"),
        Binding("plus,equals_sign", "faster(1)", "Faster", key_display="+", tooltip="Replay faster"),
        Binding("minus", "faster(-1)", "Slower", show=False, tooltip="Replay slower"),
        Binding(
            "full_stop",
            "step",
            "Step",
            key_display=".",
            show=False,
            tooltip="Replay: on to the next step",
        ),
        Binding("enter", "results", "Results", tooltip="The results, once the run is over"),
        Binding("y", "log_scale", "Log scale", show=False, tooltip="The loss on a logarithmic scale, and back"),
        Binding("z", "zoom", "Zoom", show=False, tooltip="The chosen pane on the whole screen, and back"),
        Binding("escape", "back", "Back", tooltip="Back to where one came from"),
        Binding("escape", "leave_run", "Back", show=False, tooltip="Back: the run is stopped, after a question"),
        *(Binding(str(n), f"pane('{name}')", title, show=False) for n, (name, title) in enumerate(TITLES.items(), 1)),
    ]

    held = reactive(False, init=False)

    def __init__(self, feed: Session | Playback) -> None:
        super().__init__()
        self.feed = feed
        self.watched = RunMonitor(feed.there)
        self._over_ns: int | None = None  # when the run was over

    def compose_content(self) -> ComposeResult:
        yield Static(id="now", markup=False)
        yield Panes()

    def on_mount(self) -> None:
        self.set_interval(self.console_app.refresh_s, self.tick)
        self.call_after_refresh(self.tick)

    def on_screen_resume(self) -> None:
        self.draw()

    def tick(self) -> None:
        """Take in what has happened, and draw what can be seen of it."""
        is_over = self.feed.is_over  # asked first: then what is drained is the last of it
        if isinstance(self.feed, Playback) and self.feed.restarted:
            self.watched = RunMonitor()
        messages = self.feed.drain()
        tell(self, messages, self.watched.live.trial)
        self.watched.add(messages)
        if self.is_current and not self.held:
            self.draw()
        if isinstance(self.feed, Session) and is_over and self._over_ns is None:
            self._end(self.feed)

    def draw(self) -> None:
        now_ns = self._over_ns or self.feed.now_ns()
        watched = self.watched
        watched.look(now_ns)
        states = rank_states.states(watched.live, watched.last, now_ns)
        said = self.feed.error or headline.sentence(watched, states, self.feed.preset, now_ns)
        self.query_one("#now", Static).update(Content(said), layout=False)
        self.query_one(TitleBar).show(self._where(), self._how(now_ns))
        self.query_one(Panes).draw(watched, self.feed, now_ns)

    def _where(self) -> str:
        live, preset = self.watched.live, self.feed.preset
        names = [trial.name for trial in preset.trials]
        if live.trial not in names:
            return preset.name
        where = f"{preset.name} ▸ {live.trial} ({names.index(live.trial) + 1} of {len(names)})"
        return where + (f" ▸ repeat {live.repeat} of {preset.repeats}" if preset.repeats > 1 else "")

    def _how(self, now_ns: int) -> str:
        live = self.watched.live
        begun = live.began_ns if live.began_ns is not None else now_ns
        left = progress.left_s(self.feed.preset, live, now_ns) if isinstance(self.feed, Session) else None
        total = f" of {progress.clock((self.feed.end_ns - begun) / S)}" if isinstance(self.feed, Playback) else ""
        parts = [
            self._mode(),
            f"step {live.step} of {live.steps}" if live.steps else "",
            progress.clock((now_ns - begun) / S) + total,
            f"about {progress.clock(left)} left" if left is not None else "",
        ]
        return " · ".join(filter(None, parts))

    def _mode(self) -> str:
        if isinstance(self.feed, Playback):
            return f"replay × {self.feed.speed:g}" + (", standing still" if self.feed.paused else "")
        return "held: space goes on" if self.held else ""

    def _end(self, session: Session) -> None:
        """No rank is left. All went well: the results; else this screen stays, since it says why."""
        self._over_ns = session.now_ns()
        self.console_app.run_ended(session)
        self.refresh_bindings()
        self.draw()
        if session.results.status == "ok":
            self.action_results()
        elif not self.console_app.leaving:
            self.notify("Enter shows the results.", title=f"The run has ended: {session.results.status}", timeout=5)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A replay has no ranks to talk to, and a run cannot go back."""
        goes_on, replayed = isinstance(self.feed, Session) and self._over_ns is None, isinstance(self.feed, Playback)
        if action in OF_A_RUN:
            return goes_on
        if action in OF_A_REPLAY:
            return replayed
        allowed = {"hold": goes_on or replayed, "results": not goes_on, "back": not goes_on}
        return allowed.get(action, True)

    def action_hold(self) -> None:
        if isinstance(self.feed, Playback):
            self.feed.pause()
        else:
            self.held = not self.held
        self.draw()

    @work
    async def action_inject(self) -> None:
        trial, live = self._trial(), self.watched.live
        if trial is None or not isinstance(self.feed, Session):
            return
        there = trial.bottleneck if live.injected is None else live.injected
        wanted = await self.app.push_screen_wait(Inject(trial, can_still_come(there)))
        if wanted is not None and self._trial() is trial:
            self.feed.controls.inject(wanted)

    def _trial(self) -> Trial | None:
        return next((trial for trial in self.feed.preset.trials if trial.name == self.watched.live.trial), None)

    def action_skip(self) -> None:
        if isinstance(self.feed, Session):
            self.feed.controls.skip()
            self.notify("Going on to the next trial.", timeout=3)

    @work
    async def action_stop(self) -> None:
        if isinstance(self.feed, Session) and self._over_ns is None:
            question = "Stop the run? What is finished is kept."
            if await self.app.push_screen_wait(Confirm(question, yes="Stop", no="Go on")):
                self.feed.controls.stop()

    def action_back(self) -> None:
        if self.maximized is not None:
            self.minimize()
        else:
            self.dismiss()

    def action_leave_run(self) -> None:
        if self.maximized is not None:
            self.minimize()
        else:
            self.action_stop()

    def on_data_table_row_selected(self) -> None:
        """A table takes enter for itself."""
        if self.check_action("results", ()):
            self.action_results()

    def action_results(self) -> None:
        if isinstance(self.feed, Session):
            self.console_app.show_results(self.feed)
        else:
            self.console_app.open_run(self.feed.run)  # all of it, wherever the replay is

    def action_seek(self, seconds: int) -> None:
        if isinstance(self.feed, Playback):
            self.feed.seek(seconds)  # what that brings is worked out at the next tick, once for all keys until then

    def action_faster(self, by: int) -> None:
        if isinstance(self.feed, Playback):
            self.feed.faster(by)
            self.draw()

    def action_step(self) -> None:
        if isinstance(self.feed, Playback):
            self.feed.step()
            self.tick()

    def action_pane(self, name: str) -> None:
        """Only that pane is drawn at once, so that it is there at once."""
        panes = self.query_one(Panes)
        panes.chosen = name
        panes.draw_pane(panes.pane(name), self.watched, self.feed, self.feed.now_ns())

    def action_zoom(self) -> None:
        if self.maximized is None:
            panes = self.query_one(Panes)
            self.maximize(panes.pane(panes.chosen))
        else:
            self.minimize()

    def action_log_scale(self) -> None:
        chart = self.query_one(LineChart)
        chart.logarithmic = not chart.logarithmic
