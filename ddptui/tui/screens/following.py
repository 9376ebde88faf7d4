"""The base of screens that follow a running run, follow a replay, or show a finished run."""

from collections.abc import Sequence
from importlib import import_module

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.events import ScreenResume
from textual.widgets import Static

from ddptui.config.trial import Trial
from ddptui.live import headline
from ddptui.live.monitor import RunMonitor
from ddptui.report.notes import damage
from ddptui.run.playback import Playback
from ddptui.run.runner import RunControls, Session
from ddptui.text.sanitize import shell_line
from ddptui.text.words import S
from ddptui.tui.keys import bound
from ddptui.tui.screens.base import EndedRun, LabScreen
from ddptui.tui.screens.dialogs import RunQuestion, may_stop
from ddptui.wire.records import Ended, Launched, Message, Notice, Refused

ERROR_LINES = 4  # lines of a failed launch's error in a notification; the log has all of them
FOLLOWING_KEYS = (
    bound("skip", "skip", "Skip", tooltip="End this trial, and continue with the next (asks first)"),
    bound("stop", "stop", "Stop", tooltip="Stop the run; finished launches are kept (asks first)"),
    bound("more", "playback('faster', 1)", "Faster", show=False, tooltip="Replay faster"),
    bound("less", "playback('faster', -1)", "Slower", show=False, tooltip="Replay slower"),
    Binding("escape", "back", "Back", tooltip="Back to the previous screen; stops the run (asks first)"),
)
# Actions on the ranks of a running run.
RUN_ACTIONS = ("skip", "stop", "hold", "stacks", "delay", "no_delays", "where", "longer", "rank")

Feed = Session | Playback | EndedRun


class Following(LabScreen):
    """Reads the messages of its feed, shows notifications, and has the keys to control a run or a replay."""

    def __init__(self, feed: Feed) -> None:
        super().__init__()
        self.feed = feed
        self.watched = RunMonitor() if isinstance(feed, EndedRun) else RunMonitor(feed.finished_before)
        self.ended_ns: int | None = None  # when all ranks of the session had ended

    def draw(self) -> None:
        """Update what the screen shows."""
        raise NotImplementedError

    def compose_damage(self) -> ComposeResult:
        """Yield a note about damaged journals, if any, since their messages are missing here."""
        unread = self.feed.unread if isinstance(self.feed, Playback) else self.feed.results.unread
        if unread:
            yield Static("\n".join(damage(unread)), id="damage", markup=False)

    def take_in(self, messages: Sequence[Message], *, restarted: bool) -> None:
        """Process messages; subclasses keep what they need. `restarted`: the replay has gone back, so start over."""

    @property
    def goes_on(self) -> bool:
        """Whether ranks may still be running."""
        return isinstance(self.feed, Session) and self.ended_ns is None

    @property
    def is_over(self) -> bool:
        """Whether no more messages will come, neither from ranks nor from a recording."""
        return not self.goes_on and not isinstance(self.feed, Playback)

    @property
    def controls(self) -> RunControls:
        """The controls of the running run. Only RUN_ACTIONS need them."""
        assert isinstance(self.feed, Session)
        return self.feed.controls

    def on_mount(self) -> None:
        # The timer belongs to the screen: a timer of the app could fire after its screens are gone, and fail.
        if not isinstance(self.feed, EndedRun):
            self.set_interval(self.console_app.refresh_s, self.tick)
            self.load_judge()
        self.call_after_refresh(self.tick)  # the panes have no size before the refresh

    @work(thread=True, exit_on_error=False)
    def load_judge(self) -> None:
        """Import the modules of the first judgement (mainly numpy) while the screen is drawn."""
        import_module("ddptui.findings.verdict")

    def on_screen_resume(self, event: ScreenResume) -> None:
        self.draw()

    def tick(self) -> None:
        """Process new messages, and draw, unless another screen covers this one."""
        feed = self.feed
        if not isinstance(feed, EndedRun):
            is_over = feed.is_over  # read before draining, so that no message in between is missed
            if restarted := isinstance(feed, Playback) and feed.restarted:
                self.watched = RunMonitor()
                self.watched.live = feed.state()
            messages = feed.drain()  # all at once: one Textual message for each would cost a redraw for each
            for message in messages:
                self.watched.add([message])
                if isinstance(feed, Session):
                    self._announce(message)
            self.take_in(messages, restarted=restarted)
            if is_over and self.goes_on:
                self._end()
        if self.is_current:
            self.draw()

    def _announce(self, message: Message) -> None:
        """Notify the user of what went wrong."""
        live = self.watched.live
        match message:
            case Launched():
                self.refresh_bindings()  # they depend on the trial
            case Ended(status="failed"):
                why = (message.error or "no reason is known").splitlines()[:ERROR_LINES]
                self.console_app.complain(f"{live.trial} failed", "\n".join(why))
            case Notice() if live.status != "running":  # the screen itself no longer shows it
                self.console_app.complain("The run is over", message.text)
            case Refused():
                self.notify(headline.refusal(message), title="Connection rejected", severity="warning", markup=False)

    def _end(self) -> None:
        """Handle the end of the session, when all its ranks have ended."""
        assert isinstance(self.feed, Session)
        self.ended_ns, status = self.feed.now_ns(), self.feed.results.status
        self.console_app.run_ended(self.feed)
        if isinstance(self.app.screen, RunQuestion):  # the question is moot
            self.app.screen.dismiss(None)
        self.refresh_bindings()
        if status != "ok" and not self.console_app.leaving:
            self.notify(f"{self.feed.preset.name}: {status}", title="The run has ended", timeout=5, markup=False)

    def trial_under_way(self) -> Trial | None:
        """Return the trial of the current launch; before the first launch, the first trial."""
        return self.watched.trial(self.feed.preset)

    def place(self) -> str:
        """Return the preset, and the trial and repeat if there are several: `quickstart ▸ ddp (2 of 2) ▸ repeat 1 of
        3`."""
        preset, trial = self.feed.preset, self.trial_under_way()
        if trial is None:
            return preset.name
        if preset.kind == "command" and len(preset.trials) == 1:
            return f"{preset.name}: {shell_line(trial.command)}"
        where = preset.name
        if len(preset.trials) > 1:
            where += f" ▸ {trial.name} ({preset.trials.index(trial) + 1} of {len(preset.trials)})"
        repeat = self.watched.live.repeat
        return where + (f" ▸ repeat {repeat} of {preset.repeats}" if preset.repeats > 1 and repeat else "")

    def progress(self, feed: Session | Playback, now_ns: int, *parts: str) -> str:
        """Return `parts`, then the time since the user started the run, and the time left."""
        live = self.watched.live
        began_ns = live.began_ns if live.began_ns is not None else now_ns
        if isinstance(feed, Session):
            began_ns = feed.begun_ns  # the first launch may start seconds later, after torch is imported
        elapsed, left = headline.clock((now_ns - began_ns) / S), ""
        if isinstance(feed, Playback):
            elapsed += f" of {headline.clock((feed.end_ns - began_ns) / S)}"
            left = f"1 step in {feed.recording.every} shown" * (feed.recording.every > 1)  # the run is long
        elif (left_s := headline.left_s(feed.preset, live, now_ns)) is not None:
            left = f"about {headline.clock(left_s)} left"
        return " · ".join(filter(None, [*parts, elapsed, left]))

    def pace(self) -> str:
        """Return the speed of a replay; empty for a run."""
        if not isinstance(self.feed, Playback):
            return ""
        return f"replay × {self.feed.speed:g}{', paused' * self.feed.paused}"

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable actions that do not apply: a replay has no ranks to control, and a run cannot go back."""
        if action == "playback":
            return isinstance(self.feed, Playback)
        if action == "skip" and isinstance(self.feed, Session) and self.feed.terms.outlives:
            return False  # a watched training has no other trial, and its end needs a question of its own
        return action not in RUN_ACTIONS or self.goes_on

    @work
    async def action_skip(self) -> None:
        launched_ns, trial = self.watched.live.launched_ns, self.watched.live.trial
        question = f"Skip trial {trial or ''}? It ends, without further repeats."
        if await self.app.push_screen_wait(RunQuestion(question, y="Skip")) and self.goes_on:
            self.skip(launched_ns, "The trial ends; the next one follows.")

    def skip(self, launched_ns: int, then: str) -> None:
        """Skip the trial of a launch. `then`: the notification, if the launch was still running."""
        is_skipped = self.controls.skip(launched_ns)
        self.notify(then if is_skipped else "Not skipped: the launch has ended already.", timeout=3)

    @work
    async def action_stop(self) -> None:
        if isinstance(self.feed, Session):
            question = "Stop the run? Finished launches are kept."
            if await may_stop(self.app, self.feed.terms, question, yes="Stop"):
                self.feed.controls.stop()

    def action_back(self) -> None:
        if self.goes_on:
            self.action_stop()
        else:
            self.dismiss()

    def action_playback(self, what: str, *by: float) -> None:
        """Control the replay. `what`: a method of Playback; it may return whether there was a place to go to."""
        assert isinstance(self.feed, Playback)
        if getattr(self.feed, what)(*by) is False:
            self.notify(f"This is the {'last' if by[0] > 0 else 'first'} one.", title="Replay", timeout=3)
        if not self.feed.restarted:  # otherwise the next tick rebuilds the state, once for all keys until then
            self.tick()
