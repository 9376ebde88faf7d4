"""What a screen has that follows a run as it goes, or as it went, or shows what it came to: the stream is taken in, the
title says how far it is, and it can be stopped, skipped, left and replayed."""

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from textual import work
from textual.binding import Binding, BindingType

from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.config.trial import Trial
from ddptui.live import headline, progress, rank_states
from ddptui.live.monitor import RunMonitor
from ddptui.live.rank_states import STALLED
from ddptui.run.playback import Playback
from ddptui.run.session import Session
from ddptui.store.runs import Run
from ddptui.text.units import S
from ddptui.tui.screens.base import LabScreen
from ddptui.tui.screens.confirm import Confirm
from ddptui.tui.screens.exporting import export
from ddptui.tui.screens.tell import tell
from ddptui.tui.widgets.title_bar import TitleBar
from ddptui.wire.records import Message

OF_A_RUN = ("skip", "stop", "leave_run")
OF_A_REPLAY = ("faster", "seek", "hold")
OF_RESULTS = ("export", "replay")


class Over(NamedTuple):
    """A run that is over: nothing more is told of it."""

    run: Run
    preset: Preset
    results: Results


Feed = Session | Playback | Over


class Following(LabScreen):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "skip", "Skip", tooltip="End this trial, and go on to the next"),
        Binding("x", "stop", "Stop", tooltip="Stop the run; what is finished is kept"),
        Binding("x", "export", "Export"),
        Binding("v", "replay", "Replay"),
        Binding("plus,equals_sign", "faster(1)", "Faster", key_display="+", tooltip="Replay faster"),
        Binding("minus", "faster(-1)", "Slower", show=False, tooltip="Replay slower"),
        Binding("less_than_sign", "seek(-5)", "Seek back", key_display="<", show=False, tooltip="Replay: 5 s back"),
        Binding("greater_than_sign", "seek(5)", "Seek", key_display=">", show=False, tooltip="Replay: 5 s on"),
        Binding("H", "hold", "Hold", show=False, tooltip="The replay stands still, and goes on"),
        Binding("escape", "back", "Back", tooltip="Back to where one came from"),
        Binding("escape", "leave_run", "Back", show=False, tooltip="Back: the run is stopped, after a question"),
    ]

    def __init__(self, feed: Feed) -> None:
        super().__init__()
        self.feed = feed
        self.watched = RunMonitor() if isinstance(feed, Over) else RunMonitor(feed.there)
        self._over_ns: int | None = None  # when the run was over

    def draw(self) -> None:
        """What can be seen has changed."""
        raise NotImplementedError

    def take_in(self, messages: Sequence[Message]) -> None:
        raise NotImplementedError

    def begin_anew(self) -> None:
        """The replay has gone back: what was taken in is void."""
        raise NotImplementedError

    @property
    def goes_on(self) -> bool:
        """Whether ranks may still run."""
        return isinstance(self.feed, Session) and self._over_ns is None

    @property
    def is_told(self) -> bool:
        """Whether there may be more to come."""
        return self.goes_on or isinstance(self.feed, Playback)

    def on_mount(self) -> None:
        if not isinstance(self.feed, Over):
            self.set_interval(self.console_app.refresh_s, self.tick)
        self.call_after_refresh(self.tick)

    def on_screen_resume(self) -> None:
        self.draw()

    def tick(self) -> None:
        """Take in what has happened, and draw what can be seen of it."""
        if not isinstance(self.feed, Over):
            is_over = self.feed.is_over  # asked first: then what is drained is the last of it
            self._hear(self.feed)
            if isinstance(self.feed, Session) and is_over and self._over_ns is None:
                self._end(self.feed)
        if self.is_current:
            self.draw()

    def _hear(self, feed: Session | Playback) -> None:
        if isinstance(feed, Playback) and feed.restarted:
            self.watched = RunMonitor()
            self.begin_anew()
        messages = feed.drain()
        tell(self, messages, self.watched.live.trial)
        self.watched.add(messages)
        self.take_in(messages)

    def _end(self, session: Session) -> None:
        """No rank is left."""
        self._over_ns = session.now_ns()
        self.console_app.run_ended(session)
        self.refresh_bindings()
        if session.results.status != "ok" and not self.console_app.leaving:
            self.notify(f"{session.preset.name}: {session.results.status}", title="The run has ended", timeout=5)

    # In words

    def show_title(self, at: str) -> None:
        """`at`: what the ranks do right now."""
        how = self._outcome(self.feed) if isinstance(self.feed, Over) else self._how(self.feed, at)
        self.query_one(TitleBar).show(self._where(), how)

    def said(self) -> str:
        """How the run goes, as far as the title does not say it."""
        if isinstance(self.feed, Over):
            return ""
        now_ns, live = self._over_ns or self.feed.now_ns(), self.watched.live
        states = rank_states.states(live, (), now_ns)
        is_plain = live.status == "running" and live.step and not any(map(_is_stalled, states.values()))
        is_done = live.status == "ok" and not live.failures
        return self.feed.error or (
            "" if is_plain or is_done else headline.sentence(self.watched, states, self.feed.preset, now_ns)
        )

    def trial_under_way(self) -> Trial | None:
        return next((trial for trial in self.feed.preset.trials if trial.name == self.watched.live.trial), None)

    def _where(self) -> str:
        live, preset = self.watched.live, self.feed.preset
        names = [trial.name for trial in preset.trials]
        if isinstance(self.feed, Over) or self._over_ns is not None:
            return f"{preset.name} ▸ result"
        if live.trial not in names:
            return preset.name
        where = f"{preset.name} ▸ {live.trial} ({names.index(live.trial) + 1} of {len(names)})"
        return where + (f" ▸ repeat {live.repeat} of {preset.repeats}" if preset.repeats > 1 else "")

    def _how(self, feed: Session | Playback, at: str) -> str:
        live = self.watched.live
        if isinstance(feed, Session) and self._over_ns is not None:
            return self._outcome(feed)
        now_ns = feed.now_ns()
        begun = live.began_ns if live.began_ns is not None else now_ns
        left = progress.left_s(feed.preset, live, now_ns) if isinstance(feed, Session) else None
        total = f" of {progress.clock((feed.end_ns - begun) / S)}" if isinstance(feed, Playback) else ""
        parts = [
            f"replay × {feed.speed:g}{', standing still' * feed.paused}" if isinstance(feed, Playback) else "",
            at,
            f"{live.step} of {live.steps}" if live.steps else "",
            progress.clock((now_ns - begun) / S) + total,
            f"about {progress.clock(left)} left" if left is not None else "",
        ]
        return " · ".join(filter(None, parts))

    def _outcome(self, feed: Session | Over) -> str:
        return f"{feed.run.name}  {feed.results.status}"

    # Keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A replay has no ranks to talk to, and a run cannot go back."""
        if action in OF_A_RUN:
            return self.goes_on
        if action in OF_A_REPLAY:
            return isinstance(self.feed, Playback)
        if action in OF_RESULTS:
            return not self.is_told
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
        if isinstance(self.feed, Playback):
            self.feed.pause()
            self.draw()

    def action_seek(self, seconds: int) -> None:
        if isinstance(self.feed, Playback):
            self.feed.seek(seconds)  # what that brings is worked out at the next tick

    def action_faster(self, by: int) -> None:
        if isinstance(self.feed, Playback):
            self.feed.faster(by)
            self.draw()

    def action_replay(self) -> None:
        self.console_app.replay(self.feed.run)

    @work(group="export")
    async def action_export(self, form: str = "markdown") -> None:
        await export(self.console_app, self.feed.run, self.feed.preset, self.feed.results, form)


def _is_stalled(state: str) -> bool:
    return state.startswith(STALLED)
