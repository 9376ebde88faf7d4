"""The base of the screens that follow a run as it goes, follow a replay, or show a run that has ended."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.widgets import Static

from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.config.trial import Trial
from ddptui.live import headline
from ddptui.live import headline as course
from ddptui.live.monitor import RunMonitor
from ddptui.report.notes import damage
from ddptui.run.playback import Playback
from ddptui.run.session import Session
from ddptui.store.runs import Run
from ddptui.text.units import S
from ddptui.tui.screens.base import LabScreen
from ddptui.tui.screens.dialogs import Confirm
from ddptui.wire.records import Ended, Launched, Message, Refused

ERROR_LINES = 4  # of a failed launch, in its alarm; the log has more

# Keys that the screens have in common. Each screen puts them in the order of its footer.
RUN_KEYS = (
    Binding("s", "skip", "Skip", tooltip="End this trial, and go on to the next"),
    Binding("x", "stop", "Stop", tooltip="Stop the run; what is finished is kept"),
)
REPLAY_KEYS = (
    Binding("plus,equals_sign", "faster(1)", "Faster", key_display="+", tooltip="Replay faster"),
    Binding("minus", "faster(-1)", "Slower", show=False, tooltip="Replay slower"),
)
BACK_KEYS = (
    Binding("escape", "back", "Back", tooltip="Back to the screen before"),
    Binding("escape", "leave_run", "Back", show=False, tooltip="Back: the run is stopped, after a question"),
)


class EndedRun(NamedTuple):
    """A run on disk that is shown as a whole, and not followed."""

    run: Run
    preset: Preset
    results: Results


Feed = Session | Playback | EndedRun


class Following(LabScreen):
    """Takes in the messages of its feed, raises alarms, and has the keys to steer a run or a replay."""

    RUN_ACTIONS: tuple[str, ...] = ("skip", "stop", "leave_run")
    REPLAY_ACTIONS: tuple[str, ...] = ("faster", "seek")

    def __init__(self, feed: Feed) -> None:
        super().__init__()
        self.feed = feed
        self.watched = RunMonitor() if isinstance(feed, EndedRun) else RunMonitor(feed.finished_before)
        self.ended_ns: int | None = None  # when no rank of the session was left
        self._taken_in = 0  # messages, since the replay was last at its start
        self._alarmed = 0  # of these, how many were looked through for alarms: the same again are no news

    def draw(self) -> None:
        """Bring up to date what shows."""
        raise NotImplementedError

    def compose_damage(self) -> ComposeResult:
        """Yield the sentences of the reports on damaged journals, whose messages are missing here."""
        unread = self.feed.unread if isinstance(self.feed, Playback) else self.feed.results.unread
        if unread:
            yield Static("\n".join(damage(unread)), id="damage", markup=False)

    def take_in(self, messages: Sequence[Message]) -> None:
        """Take in what a subclass keeps of the messages besides `watched`."""

    def restart(self) -> None:
        """Forget what `take_in` has kept: the replay has gone back."""

    def announce_end(self, status: str) -> None:
        """Say that the session has ended."""
        raise NotImplementedError

    @property
    def goes_on(self) -> bool:
        """Whether ranks may still run."""
        return isinstance(self.feed, Session) and self.ended_ns is None

    def on_mount(self) -> None:
        if not isinstance(self.feed, EndedRun):
            self.set_interval(self.console_app.refresh_s, self.tick)
        self.call_after_refresh(self.tick)

    def on_screen_resume(self) -> None:
        self.draw()

    def tick(self) -> None:
        """Take in new messages, and draw, unless another screen covers this one."""
        if not isinstance(self.feed, EndedRun):
            is_over = self.feed.is_over  # before draining: else messages could come between the two, and be missed
            self._drain(self.feed)
            if isinstance(self.feed, Session) and is_over and self.ended_ns is None:
                self.end(self.feed)
        if self.is_current:
            self.draw()

    def end(self, session: Session) -> None:
        """No rank of the session is left."""
        self.ended_ns = session.now_ns()
        self.console_app.run_ended(session)
        self.refresh_bindings()
        if session.results.status != "ok" and not self.console_app.leaving:
            self.announce_end(session.results.status)

    def _drain(self, feed: Session | Playback) -> None:
        if isinstance(feed, Playback) and feed.restarted:
            self.watched = RunMonitor()
            self._taken_in = 0
            self.restart()
        messages = feed.drain()
        self._raise_alarms(messages)
        self.watched.add(messages)
        self.take_in(messages)

    def _raise_alarms(self, messages: Iterable[Message]) -> None:
        """Notify of failures and rejected connections. A replay that goes back brings the old ones again."""
        trial = self.watched.live.trial
        for message in messages:
            self._taken_in += 1
            if isinstance(message, Launched):
                trial = message.trial
            if self._taken_in > self._alarmed:
                self._alarmed = self._taken_in
                self._alarm(message, trial)

    def _alarm(self, message: Message, trial: str | None) -> None:
        if isinstance(message, Ended) and message.status == "failed":
            why = (message.error or "no reason is known").splitlines()[:ERROR_LINES]
            self.console_app.complain(f"{trial} failed", "\n".join(why))
        elif isinstance(message, Refused):
            self.notify(headline.refusal(message), title="Connection rejected", severity="warning", markup=False)

    # For the title

    def trial_under_way(self) -> Trial | None:
        """Return the trial of the current launch."""
        return next((trial for trial in self.feed.preset.trials if trial.name == self.watched.live.trial), None)

    def place(self) -> str:
        """Return the preset, and which trial and repeat of it: `quickstart ▸ ddp (2 of 2) ▸ repeat 1 of 3`."""
        live, preset = self.watched.live, self.feed.preset
        names = [trial.name for trial in preset.trials]
        if live.trial not in names:
            return preset.name
        where = f"{preset.name} ▸ {live.trial} ({names.index(live.trial) + 1} of {len(names)})"
        return where + (f" ▸ repeat {live.repeat} of {preset.repeats}" if preset.repeats > 1 else "")

    def progress(self, feed: Session | Playback, now_ns: int, *parts: str) -> str:
        """Return a replay's speed, then `parts`, then the time since the run began and the time that is left."""
        live = self.watched.live
        began_ns = live.began_ns if live.began_ns is not None else now_ns
        left_s = course.left_s(feed.preset, live, now_ns) if isinstance(feed, Session) else None
        total = f" of {course.clock((feed.end_ns - began_ns) / S)}" if isinstance(feed, Playback) else ""
        speed = f"replay × {feed.speed:g}{', standing still' * feed.paused}" if isinstance(feed, Playback) else ""
        elapsed = course.clock((now_ns - began_ns) / S) + total
        left = f"about {course.clock(left_s)} left" if left_s is not None else ""
        return " · ".join(filter(None, [speed, *parts, elapsed, left]))

    # Keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A replay has no ranks to steer, and a run cannot go back."""
        if action in self.RUN_ACTIONS:
            return self.goes_on
        if action in self.REPLAY_ACTIONS:
            return isinstance(self.feed, Playback)
        return action != "back" or not self.goes_on

    def action_skip(self) -> None:
        if isinstance(self.feed, Session):
            self.feed.controls.skip()
            self.notify("Going on to the next trial.", timeout=3)

    @work
    async def action_stop(self) -> None:
        if isinstance(self.feed, Session) and self.goes_on:
            question = "Stop the run? What is finished is kept."
            if await self.app.push_screen_wait(Confirm(question, yes="Stop", no="Go on")):
                self.feed.controls.stop()

    def action_leave_run(self) -> None:
        self.action_stop()

    def action_back(self) -> None:
        self.dismiss()

    def action_hold(self) -> None:
        """Let the replay stand still, or go on."""
        if isinstance(self.feed, Playback):
            self.feed.pause()
            self.draw()

    def action_seek(self, seconds: int) -> None:
        if isinstance(self.feed, Playback):
            self.feed.seek(seconds)  # the next tick takes in what that brings, once for all keys until then

    def action_faster(self, by: int) -> None:
        if isinstance(self.feed, Playback):
            self.feed.faster(by)
            self.draw()
