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
from ddptui.run.session import Session
from ddptui.text.argv import shell_line
from ddptui.text.units import S, seconds
from ddptui.tui.keys import bound
from ddptui.tui.screens.base import EndedRun, LabScreen
from ddptui.tui.screens.dialogs import LettingGo, RunQuestion, may_stop
from ddptui.wire.records import Ended, Launched, Message, Notice, Refused

ERROR_LINES = 4  # lines of a failed launch's error in a notification; the log has all of them

# Keys that these screens share. Each screen lists them in the order of its footer.
RUN_KEYS = (
    bound("skip", "skip", "Skip", tooltip="End this trial, and continue with the next (asks first)"),
    bound("stop", "stop", "Stop", tooltip="Stop the run; finished launches are kept (asks first)"),
)
REPLAY_KEYS = (
    bound("more", "faster(1)", "Faster", show=False, tooltip="Replay faster"),
    bound("less", "faster(-1)", "Slower", show=False, tooltip="Replay slower"),
)
BACK_KEYS = (  # exactly one of them is active at any time: see `check_action`
    Binding("escape", "back", "Back", tooltip="Back to the previous screen"),
    Binding("escape", "stop", "Back", show=False, tooltip="Back: stops the run (asks first)"),
)

Feed = Session | Playback | EndedRun


class Following(LabScreen):
    """Reads the messages of its feed, shows notifications, and has the keys to control a run or a replay."""

    RUN_ACTIONS: tuple[str, ...] = ("skip", "stop")
    REPLAY_ACTIONS: tuple[str, ...] = ("faster", "seek")

    def __init__(self, feed: Feed) -> None:
        super().__init__()
        self.feed = feed
        self.watched = RunMonitor() if isinstance(feed, EndedRun) else RunMonitor(feed.finished_before)
        self.ended_ns: int | None = None  # when all ranks of the session had ended
        self._taken_in = 0  # number of messages read; in a replay, counted from its beginning
        self._alarmed = 0  # number of messages checked for notifications: after seeking back, they are not shown again

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

    def announce_end(self, status: str) -> None:
        """Notify the user that the session has ended."""
        raise NotImplementedError

    @property
    def goes_on(self) -> bool:
        """Whether ranks may still be running."""
        return isinstance(self.feed, Session) and self.ended_ns is None

    @property
    def is_over(self) -> bool:
        """Whether no more messages will come, neither from ranks nor from a recording."""
        return not self.goes_on and not isinstance(self.feed, Playback)

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
        if not isinstance(self.feed, EndedRun):
            is_over = self.feed.is_over  # read before draining, so that no message in between is missed
            self._drain(self.feed)
            if isinstance(self.feed, Session) and is_over and self.ended_ns is None:
                self.end(self.feed)
        if self.is_current:
            self.draw()

    def end(self, session: Session) -> None:
        """Handle the end of a session, when all its ranks have ended."""
        self.ended_ns = session.now_ns()
        self.console_app.run_ended(session)
        if isinstance(self.app.screen, RunQuestion | LettingGo):  # the question is moot
            self.app.screen.dismiss(None)
        self.refresh_bindings()
        if session.results.status != "ok" and not self.console_app.leaving:
            self.announce_end(session.results.status)

    def _drain(self, feed: Session | Playback) -> None:
        if restarted := isinstance(feed, Playback) and feed.restarted:
            self.watched = RunMonitor()
            self.watched.live, self._taken_in = feed.state(), feed.drained
        messages = feed.drain()  # all at once: one Textual message for each would cost a redraw for each
        trial, runs = self.watched.live.trial, self.watched.live.status == "running"
        for message in messages:
            self._taken_in += 1
            runs = isinstance(message, Launched) or (runs and not isinstance(message, Ended))
            if isinstance(message, Launched):
                trial = message.trial
            if self._taken_in <= self._alarmed:
                continue
            self._alarmed = self._taken_in
            if isinstance(message, Ended) and message.status == "failed":
                why = (message.error or "no reason is known").splitlines()[:ERROR_LINES]
                self.console_app.complain(f"{trial} failed", "\n".join(why))
            elif isinstance(message, Notice) and not runs:  # the screen itself no longer shows it
                self.console_app.complain("The run is over", message.text)
            elif isinstance(message, Refused):
                self.notify(headline.refusal(message), title="Connection rejected", severity="warning", markup=False)
        self.watched.add(messages)
        self.take_in(messages, restarted=restarted)

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
            shown = f"1 step in {feed.recording.every} shown" * (feed.recording.every > 1)  # the run is long
            left = "computing the results" if feed.is_working else shown
        elif (left_s := headline.left_s(feed.preset, live, now_ns)) is not None:
            left = f"about {headline.clock(left_s)} left"
        return " · ".join(filter(None, [*parts, elapsed, left]))

    def pace(self) -> str:
        """Return the speed of a replay, or for a moment what it has skipped; empty for a run."""
        if not isinstance(self.feed, Playback):
            return ""
        if self.feed.skipped_s:
            return f"start skipped: {seconds(self.feed.skipped_s)}"
        return f"replay × {self.feed.speed:g}{', paused' * self.feed.paused}"

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable actions that do not apply: a replay has no ranks to control, and a run cannot go back."""
        if action == "skip" and isinstance(self.feed, Session) and self.feed.terms.outlives:
            return False  # a watched training has no other trial, and its end needs a question of its own
        if action in self.RUN_ACTIONS:
            return self.goes_on
        if action in self.REPLAY_ACTIONS:
            return isinstance(self.feed, Playback)
        return action != "back" or not self.goes_on

    @work
    async def action_skip(self) -> None:
        launched_ns, trial = self.watched.live.launched_ns, self.watched.live.trial
        question = f"Skip trial {trial or ''}? It ends, without further repeats."
        if await self.app.push_screen_wait(RunQuestion(question, yes="Skip", no="Cancel")) and self.goes_on:
            self.skip(launched_ns, "The trial ends; the next one follows.")

    def skip(self, launched_ns: int, then: str) -> None:
        """Skip the trial of a launch. `then`: the notification, if the launch was still running."""
        assert isinstance(self.feed, Session)
        is_skipped = self.feed.controls.skip(launched_ns)
        self.notify(then if is_skipped else "Not skipped: the launch has ended already.", timeout=3)

    @work
    async def action_stop(self) -> None:
        if isinstance(self.feed, Session) and self.goes_on:
            question = "Stop the run? Finished launches are kept."
            if await may_stop(self.app, self.feed.terms, question, yes="Stop"):
                self.feed.controls.stop()

    def action_back(self) -> None:
        self.dismiss()

    def action_hold(self) -> None:
        """Pause or continue the replay."""
        if isinstance(self.feed, Playback):
            self.feed.pause()
            self.draw()

    def action_seek(self, seconds: int) -> None:
        if isinstance(self.feed, Playback):
            self.feed.seek(seconds)  # the next tick processes the messages, once for all keys until then

    def action_faster(self, by: int) -> None:
        if isinstance(self.feed, Playback):
            self.feed.faster(by)
            self.draw()
