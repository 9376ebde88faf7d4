"""Follows a watched training. It is never ended here: its problems are only reported."""

import signal
import time
from collections.abc import Iterator, Sequence

from ddptui.analysis.clock_sync import Clocks
from ddptui.config.trial import Trial
from ddptui.diagnosis import failure
from ddptui.engines.base import LAUNCHER_LOG, Launch
from ddptui.engines.hub import Hub
from ddptui.run.supervisor import CONSOLE_PAUSE_S, LAST_WORDS_S, drained
from ddptui.store.journal import RepeatJournal
from ddptui.text.words import count, ending
from ddptui.wire.messages import Done, Failed, Hello, RankMessage, Step
from ddptui.wire.records import Ended, Stop

LOST_AFTER_S = 60.0  # without a message from any rank, a training without a local process counts as lost
NO_STEP_S = 60.0  # time after the start (on other hosts: after the first rank connected) until a notice about no steps
INTERRUPTED = (-signal.SIGINT, 128 + signal.SIGINT)  # exit codes of commands that Ctrl-C has ended


class WatchSupervisor:
    """Tracks the state of a watched command. Call `add` and `is_over` alternately until it is over, then
    `last_messages`, then `ended`."""

    def __init__(self, trial: Trial, hub: Hub, launch: Launch, repeat: RepeatJournal) -> None:
        self._trial, self.hub, self.launch, self._repeat = trial, hub, launch, repeat
        self._steps: set[int] = set()  # ranks that have made a step
        self._done: set[int] = set()
        self._failed: dict[int, str] = {}  # the errors that have ended ranks, keyed by rank
        self._exit_code: int | None = None
        # times by time.monotonic(); 0: not yet
        self._last_heard = self._last_look = 0.0
        self._began = 0.0 if launch.ends_with_ranks else time.monotonic()
        self._is_late_told = False
        self._restarts_told = 0
        self.clocks = Clocks()

    def add(self, messages: Sequence[RankMessage]) -> None:
        """Process messages of ranks."""
        if messages:
            self._last_heard = time.monotonic()
            self._began = self._began or self._last_heard
        for message in messages:
            self.clocks.add(message)
            match message:
                case Hello():
                    self.launch.add_rank(message)
                    self._done.discard(message.rank)
                    self._failed.pop(message.rank, None)
                case Step():
                    self._steps.add(message.rank)
                case Done():
                    self._done.add(message.rank)
                case Failed():
                    self._failed[message.rank] = message.error

    def last_messages(self) -> Iterator[RankMessage]:
        """Yields the messages that are still queued after the command has ended or is no longer watched."""
        if self.launch.exit_code is None:
            self.hub.send(Stop(why="no longer watched"))
        self.launch.end_relay()
        return drained(self.hub, self.add, self.has_trained)

    def all_here(self) -> bool:
        """Whether every rank has connected."""
        return 0 < self.hub.world_size == len(self.hub.hellos)

    def all_ready(self) -> bool:
        """Whether every rank has made a step."""
        return 0 < self.hub.world_size == len(self._steps)

    def has_trained(self) -> bool:
        """Whether every rank has sent Done: it will report no more steps."""
        return 0 < self.hub.world_size == len(self._done)

    def grace_s(self, changed_ns: int) -> float:
        """How long the ranks may take to send their last messages after the user asked to stop, in s."""
        return LAST_WORDS_S if self.has_trained() else 0.0

    def is_over(self) -> bool:
        """Whether the watching is over: the command has ended, or the requested number of steps was watched; for a
        command on other hosts, its ranks are done or lost."""
        now = time.monotonic()
        if self._last_heard and now - self._last_look > CONSOLE_PAUSE_S:
            self._last_heard = now  # this console itself stood still, so messages may still be unread
        self._last_look = now
        self._exit_code = self.launch.exit_code
        ends_with_ranks = self.launch.ends_with_ranks or self._trial.steps is not None
        return self._exit_code is not None or (ends_with_ranks and self.has_trained()) or self._are_lost()

    def _are_lost(self) -> bool:
        is_silent = 0 < self._last_heard < time.monotonic() - LOST_AFTER_S
        return self.launch.ends_with_ranks and is_silent and not self.has_trained()

    def take_notices(self) -> list[str]:
        """New notices: that the ranks were restarted, and once, after NO_STEP_S, that there are no steps yet."""
        if self.hub.restarts > self._restarts_told:
            self._restarts_told = self.hub.restarts
            return ["the ranks were restarted; step numbers continue"]
        is_late = 0 < self._began < time.monotonic() - NO_STEP_S
        if not is_late or self._is_late_told or self._steps:
            return []
        self._is_late_told = True
        return [f"after {NO_STEP_S:.0f} s: {self._nothing_seen()}; still watching"]

    def ended(self) -> Ended:
        """The end of the command, with an error if it failed or if nothing was measured."""
        error = self._problem()
        if self._exit_code in INTERRUPTED:
            return Ended(at_ns=time.monotonic_ns(), status="interrupted")
        return Ended(at_ns=time.monotonic_ns(), status="ok" if error is None else "failed", error=error)

    def _problem(self) -> str | None:
        if self._exit_code:
            return failure.with_log(f"the command {ending(self._exit_code)}", self._repeat.log(LAUNCHER_LOG))
        if self._failed:
            rank, error = next(iter(self._failed.items()))
            return f"rank {rank} has failed: {error}"
        if self._are_lost():
            return f"no message from its ranks for {LOST_AFTER_S:.0f} s: they were killed, or cannot be reached"
        if self.hub.other_version:
            return self.hub.other_version
        return self._nothing_seen() if not self._steps else None

    def _nothing_seen(self) -> str:
        if ranks := len(self.hub.hellos):
            return f"{count(ranks, 'rank')} connected, but no step of an optimizer was seen"
        return self.launch.end_reason() or "no rank was seen: no process computed a gradient with torch"
