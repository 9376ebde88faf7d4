"""Follows one launch until it is over, or until it has failed: a rank died, or hangs, or never came."""

import time
from collections.abc import Iterator
from math import inf

import psutil

from ddptui.analysis.clock_sync import Clocks, in_console_time
from ddptui.config.launch_modes import ONE_PROCESS
from ddptui.config.trial import Trial
from ddptui.diagnosis import failure
from ddptui.diagnosis.positions import Stall
from ddptui.diagnosis.stall import IN_TIME_S, StallDetector
from ddptui.engines.base import Launch
from ddptui.engines.hub import Hub
from ddptui.engines.local.engine import LAUNCHER_LOG
from ddptui.host import limits
from ddptui.store.journal import RepeatJournal
from ddptui.wire.messages import Done, Failed, Hello, RankMessage, Ready, Shown, Step, Stop, Timed
from ddptui.wire.records import Ended

LOOK_EVERY_S = 0.25  # for dead ranks: it reads files of each, so not at every message
STOOD_STILL_S = 3.0  # when it looks so late, it was the console that did
SURE_NS = 500_000_000  # for so long a stall is looked at before it is one
VERDICT_S = 2.0  # after the first sign of failure, how long the launcher may take to say which rank it was
CONFESSION_S = 1.0  # after it is told to end, how long a rank that hangs may take to say in its log where it was
FAREWELL_S = 20.0  # after the last rank is done, how long the launcher may take to end
LAST_WORDS_S = 5.0  # to read what has come in; a second is enough for all that may wait, but there may be a flood
START_S = 180.0  # how long to wait for one more rank, or for those that are here to be ready


class LaunchSupervisor:
    """What has become of a launch, from what its ranks say, and what its processes do."""

    def __init__(self, trial: Trial, hub: Hub, launcher: Launch, repeat: RepeatJournal) -> None:
        self._trial = trial
        self._ranks = range(trial.world_size)
        self._hub = hub
        self._launcher = launcher
        self._repeat = repeat
        start_s = inf if trial.download else START_S  # who waits for the network does not work
        self._stall_detector = StallDetector(
            trial.world_size, trial.stall_s, start_s=start_s, beats=trial.instruments == "on"
        )
        self._stall: Stall | None = None
        self._suspected_ns: int | None = None  # since when a stall is seen
        self._killed_before = limits.kills()
        self._steps: dict[int, int] = {}  # of each rank, how many there will be
        self._trained: set[int] = set()
        self._done: set[int] = set()
        self._failed: list[Failed] = []
        self.clocks = Clocks()  # of the hosts: who failed first is asked across them
        self._silent: list[int] = []  # ranks that died without a word, in the order seen
        self._too_short: str | None = None
        self._looked = 0.0
        self._stopped_since: float | None = None
        self._last_came = time.monotonic()
        self._deadline: float | None = None
        self._exit_code: int | None = None

    def receive(self, timeout_ms: int) -> list[RankMessage]:
        messages = self._hub.receive(timeout_ms)
        now_ns = time.monotonic_ns()
        for message in messages:
            self._stall_detector.add(message, now_ns)
            self.clocks.add(message)
            match message:
                case Hello():
                    self._last_came = time.monotonic()
                    self._launcher.add_rank(message)
                case Ready():
                    self._steps[message.rank] = message.steps
                    if message.steps <= self._trial.warmup_steps and self._trial.primitives is None:
                        self._too_short = f"all of its {message.steps} steps are warm-up steps: nothing was measured"
                case Step() if message.step + 1 == self._steps.get(message.rank):
                    self._trained.add(message.rank)
                case Shown() | Timed() if message.place + 1 == self._steps.get(message.rank):
                    self._trained.add(message.rank)
                case Done():
                    self._done.add(message.rank)
                case Failed():
                    last_words = in_console_time(message, self.clocks)
                    assert isinstance(last_words, Failed)
                    self._failed.append(last_words)
        return messages

    def last_words(self) -> Iterator[RankMessage]:
        """Of ranks that have ended: all that has come in, however many strangers speak meanwhile."""
        deadline = time.monotonic() + LAST_WORDS_S
        while time.monotonic() < deadline:
            refused = self._hub.refused
            yield from (messages := self.receive(0))
            if not messages and self._hub.refused == refused:
                return

    def has_trained(self) -> bool:
        """Every rank has made its last step."""
        return len(self._trained | self._done) == len(self._ranks)

    def is_over(self) -> bool:
        if self._launcher.exit_code is not None:
            self._exit_code = self._launcher.exit_code
            return True
        self._look()
        return self._deadline is not None and time.monotonic() > self._deadline

    def ended(self) -> Ended:
        now = time.monotonic_ns()
        if self._stall is not None:
            log = self._repeat.log(f"rank-{self._stall.rank}.log")
            return Ended(at_ns=now, status="failed", error=failure.with_log(self._stall.why, log))
        if len(self._done) == len(self._ranks) and not self._exit_code:
            return Ended(at_ns=now, status="failed" if self._too_short else "ok", error=self._too_short)
        if why := self._launcher.end_reason():
            return Ended(at_ns=now, status="failed", error=failure.with_log(why, self._repeat.log(LAUNCHER_LOG)))
        error = failure.explain_failure(
            trial=self._trial,
            exit_code=self._exit_code,
            launcher_log=self._repeat.log(LAUNCHER_LOG),
            rank_logs={rank: self._repeat.log(f"rank-{rank}.log") for rank in self._ranks},
            failed=self._failed,
            silent=self._silent,
            missing=self._missing(),
            memory_was_short=limits.kills() > self._killed_before,
            one_process=self._trial.launch in ONE_PROCESS,
        )
        return Ended(at_ns=now, status="failed", error=error)

    def _look(self) -> None:
        """At the ranks' processes, now and then; sets a deadline once something is wrong, or all is done."""
        since_s = time.monotonic() - self._looked
        if since_s < LOOK_EVERY_S:
            return
        if self._launcher.is_waiting:
            self._last_came = time.monotonic()
        if since_s > STOOD_STILL_S:
            self._stall_detector.restart_timers(time.monotonic_ns())
        self._looked = time.monotonic()
        states = {rank: self._launcher.process_status(hello) for rank, hello in self._hub.hellos.items()}
        spoken = self._done | {words.rank for words in self._failed} | set(self._silent)
        self._silent += [rank for rank, state in states.items() if state is None and rank not in spoken]
        if self._deadline is not None:
            return
        if len(self._done) == len(self._ranks):
            self._end_within(FAREWELL_S)
        elif self._failed or self._silent:
            self._end_within(VERDICT_S)
        elif self._missing() and time.monotonic() - self._last_came > START_S:
            self._end_within(0)
        elif stopped := self._stopped_before_hello():
            self._stall = Stall(f"{stopped}; for {self._trial.stall_s:g} s now", self._missing()[0])
            self._end_within(0)
        elif stall := self._stalled({rank: state for rank, state in states.items() if state}):
            self._stall = stall
            self._hub.send(Stop(why=stall.why.splitlines()[0]))
            self._end_within(CONFESSION_S)

    def _stalled(self, states: dict[int, str]) -> Stall | None:
        """A stall that has been seen for a while, in which no rank's helpers worked. What they do is asked last, since
        that costs, and more than once, since between two files a compiler sleeps, too."""
        now_ns = time.monotonic_ns()
        if stall := self._stall_detector.check(now_ns, states):
            asleep = [rank for rank, state in states.items() if state == psutil.STATUS_SLEEPING]
            at_work = [rank for rank in asleep if self._launcher.helpers_work(self._hub.hellos[rank])]
            stall = self._stall_detector.check(now_ns, states | dict.fromkeys(at_work, psutil.STATUS_RUNNING))
        self._suspected_ns = (self._suspected_ns or now_ns) if stall else None
        return stall if self._suspected_ns and now_ns - self._suspected_ns >= SURE_NS else None

    def _stopped_before_hello(self) -> str | None:
        """That a process of the launch has been stopped for long while ranks are missing: it may be one of them."""
        stopped = self._launcher.stopped_processes() if self._missing() else []
        if not stopped:
            self._stopped_since = None
            return None
        self._stopped_since = self._stopped_since or time.monotonic()
        if time.monotonic() - self._stopped_since < self._trial.stall_s - IN_TIME_S:
            return None
        here, all_ranks = len(self._hub.hellos), len(self._ranks)
        return f"{here} of {all_ranks} ranks are here, and process {stopped[0]} is stopped, as by SIGSTOP"

    def _missing(self) -> list[int]:
        """Ranks that have not come."""
        return [rank for rank in self._ranks if rank not in self._hub.hellos]

    def _end_within(self, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds
