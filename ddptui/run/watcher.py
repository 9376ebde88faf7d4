"""Follows a training that is watched. It is never ended here: what goes wrong in it is its own affair, and is said."""

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

LOST_AFTER_S = 60.0  # without a word of any rank, where there is no process that could be looked at
NO_STEP_S = 60.0  # after the start, or elsewhere after the first rank has connected
INTERRUPTED = (-signal.SIGINT, 128 + signal.SIGINT)  # exit codes of what Ctrl-C has ended


class WatchSupervisor:
    """The state of a watched command. Call `add` and `is_over` in turn until it is over; then `last_messages`, and
    `ended`."""

    def __init__(self, trial: Trial, hub: Hub, launch: Launch, repeat: RepeatJournal) -> None:
        self._trial, self.hub, self.launch, self._repeat = trial, hub, launch, repeat
        self._steps: set[int] = set()  # ranks that have made one
        self._done: set[int] = set()
        self._failed: dict[int, str] = {}  # by rank, the error that has ended it
        self._exit_code: int | None = None
        # as of time.monotonic(); 0: not yet
        self._last_heard = self._last_look = 0.0
        self._began = 0.0 if launch.ends_with_ranks else time.monotonic()
        self._is_late_told = False
        self._restarts_told = 0
        self.clocks = Clocks()

    def add(self, messages: Sequence[RankMessage]) -> None:
        """Take note of what ranks sent."""
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
        """The messages still queued once the command has ended, or goes on unwatched."""
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
        """Whether every rank has said that it sees no more steps."""
        return 0 < self.hub.world_size == len(self._done)

    def grace_s(self, changed_ns: int) -> float:
        """How long the ranks may take to send what they have seen, now that the user wants an end."""
        return LAST_WORDS_S if self.has_trained() else 0.0

    def is_over(self) -> bool:
        """Whether the command has ended, or as many steps were watched as were asked for; elsewhere, whether its ranks
        are done, or lost."""
        now = time.monotonic()
        if self._last_heard and now - self._last_look > CONSOLE_PAUSE_S:
            self._last_heard = now  # this console itself stood still: what ranks have sent is still to be read
        self._last_look = now
        self._exit_code = self.launch.exit_code
        ends_with_ranks = self.launch.ends_with_ranks or self._trial.steps is not None
        return self._exit_code is not None or (ends_with_ranks and self.has_trained()) or self._are_lost()

    def _are_lost(self) -> bool:
        is_silent = 0 < self._last_heard < time.monotonic() - LOST_AFTER_S
        return self.launch.ends_with_ranks and is_silent and not self.has_trained()

    def take_notices(self) -> list[str]:
        """That the ranks were started again; and once, after a minute, that there are no steps yet."""
        if self.hub.restarts > self._restarts_told:
            self._restarts_told = self.hub.restarts
            return ["the ranks were started again; the numbers of their steps go on"]
        is_late = 0 < self._began < time.monotonic() - NO_STEP_S
        if not is_late or self._is_late_told or self._steps:
            return []
        self._is_late_told = True
        return [f"after {NO_STEP_S:.0f} s: {self._nothing_seen()}; still looking"]

    def ended(self) -> Ended:
        """How the command ended; and why there are no figures, if there are none."""
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
            return f"nothing was heard of its ranks for {LOST_AFTER_S:.0f} s: they were killed, or cannot be reached"
        if self.hub.other_version:
            return self.hub.other_version
        return self._nothing_seen() if not self._steps else None

    def _nothing_seen(self) -> str:
        if ranks := len(self.hub.hellos):
            return f"{count(ranks, 'rank')} connected, and made no step of an optimizer"
        return self.launch.end_reason() or "no rank was seen: ddptui saw no process compute a gradient with torch"
