"""Supervises one launch until it ends, or fails because a rank died, hangs, or never connected."""

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from math import ceil, inf
from statistics import mean

import psutil

from ddptui.analysis.clock_sync import Clocks, in_console_time
from ddptui.config.launch_modes import ONE_PROCESS
from ddptui.config.trial import Trial
from ddptui.diagnosis import failure
from ddptui.diagnosis.positions import Stall, no_progress, records_kept
from ddptui.diagnosis.stall import IN_TIME_S, StallDetector
from ddptui.engines.base import LAUNCHER_LOG, Launch
from ddptui.engines.hub import Hub
from ddptui.host import machine
from ddptui.store.journal import RepeatJournal
from ddptui.text.units import S
from ddptui.wire.messages import Done, Failed, Hello, RankMessage, Ready, Shown, Step, Timed
from ddptui.wire.records import Ended, Failure, LastStep, Message, Stop

LOOK_EVERY_S = 0.25  # interval between two checks of the processes, which read files in /proc: too slow per message
CONSOLE_PAUSE_S = 3.0  # a check this late means that the console itself stood still (suspended, swapped out)
SURE_NS = 500_000_000  # how long a stall must last before it is reported
VERDICT_S = 2.0  # time after the first sign of failure for the launcher to report which rank it was
TRACEBACK_S = 3.0  # time after Stop for a hanging rank to write its stack to its log, even on a busy machine
LAUNCHER_EXIT_S = 20.0  # time for the launcher to exit after the last rank is done
DRAIN_S = 5.0  # time to read the last messages: one second is enough, unless other programs flood the hub
ON_THEIR_WAY_MS = 200  # time for libzmq's thread, on a busy host, to read what ranks wrote before they ended
START_S = 180.0  # time for another rank to connect, or for connected ranks to be ready
LAST_WORDS_S = 5.0  # time after a stop for ranks that have finished training to send their results
AHEAD_S = 1.0  # how far ahead the last step of a stopped training is chosen, so that all ranks learn of it in time
TAKEN_UP_NS = 200_000_000  # time after a change of delays until every rank has received it
FEWEST_AHEAD = 2  # the same in steps, if steps are long
PACE_OVER = 8  # number of last steps from which the pace is computed
SHORTEST_S = 1e-4  # lower bound for a step's duration, which ranks report and which may be wrong
MOST_GRACE_S = 180.0


def drained(
    hub: Hub, add: Callable[[Sequence[RankMessage]], None], have_all_reported: Callable[[], bool]
) -> Iterator[RankMessage]:
    """Yields the messages still queued in a hub, after passing them to `add`. have_all_reported: whether no more are
    expected."""
    deadline = time.monotonic() + DRAIN_S
    while time.monotonic() < deadline:
        refused = hub.refused
        messages = hub.receive(0 if have_all_reported() else ON_THEIR_WAY_MS)
        add(messages)
        yield from messages
        if not messages and hub.refused == refused:  # else ranks' messages may still follow
            return


class LaunchSupervisor:
    """Tracks the state of a launch from its ranks' messages and its processes. Call `add` and `is_over` alternately
    until the launch is over, then `last_messages`, then `ended` for the outcome."""

    def __init__(self, trial: Trial, hub: Hub, launch: Launch, repeat: RepeatJournal) -> None:
        self._trial, self.hub, self.launch, self._repeat = trial, hub, launch, repeat
        self._ranks = range(trial.world_size)
        start_s = inf if trial.download else START_S  # a download may take any time
        self._stall_detector = StallDetector(
            trial.world_size, trial.stall_s, start_s=start_s, beats=trial.instruments == "on"
        )
        self._stall: Stall | None = None
        self._suspected_ns: int | None = None  # when the current suspicion of a stall began
        self._killed_before = machine.oom_kills()
        self._ready: set[int] = set()
        self._steps: dict[int, int] = {}  # number of planned steps of each rank, if it is known
        self._recent: dict[int, deque[Step]] = {}  # the last steps of each rank
        self._last_step: int | None = None  # the last step, after the user has stopped the training
        self._grace_s = LAST_WORDS_S
        self._trained: set[int] = set()
        self._done: set[int] = set()
        self._failed: list[Failed] = []
        self.clocks = Clocks()  # needed to decide across hosts which rank failed first
        self._silent: list[int] = []  # ranks that died without sending Failed, in the order in which that was noticed
        self._looked_at = 0.0
        self._stopped_since: float | None = None
        self._last_connected = time.monotonic()
        self._deadline: float | None = None
        self._exit_code: int | None = None

    def add(self, messages: Sequence[RankMessage]) -> None:
        """Process messages of ranks."""
        now_ns = time.monotonic_ns()
        for message in messages:
            self._stall_detector.add(message, now_ns)
            self.clocks.add(message)
            match message:
                case Hello():
                    self._last_connected = time.monotonic()
                    self.launch.add_rank(message)
                case Ready():
                    self._ready.add(message.rank)
                    if message.steps is not None:
                        self._steps[message.rank] = message.steps
                case Step():
                    self._recent.setdefault(message.rank, deque(maxlen=PACE_OVER)).append(message)
                    if message.step + 1 == self._steps.get(message.rank):
                        self._trained.add(message.rank)
                case Shown() | Timed() if message.place + 1 == self._steps.get(message.rank):
                    self._trained.add(message.rank)
                case Done():
                    self._done.add(message.rank)
                case Failed():
                    failed = in_console_time(message, self.clocks)
                    assert isinstance(failed, Failed)
                    self._failed.append(failed)

    def last_messages(self) -> Iterator[RankMessage]:
        """Yields the messages that are still queued after the ranks have ended."""
        return drained(self.hub, self.add, lambda: len(self._reported()) == len(self._ranks))

    def take_records(self) -> Iterator[Message]:
        """Yields nothing: any problem ends the launch, and `ended` reports it."""
        return iter(())

    def all_here(self) -> bool:
        """Whether every rank has connected."""
        return not self._missing()

    def all_ready(self) -> bool:
        """Whether every rank has loaded its model and data."""
        return len(self._ready) == len(self._ranks)

    def has_trained(self) -> bool:
        """Whether every rank has finished its last step."""
        return len(self._trained | self._done) == len(self._ranks)

    def grace_s(self, changed_ns: int) -> float:
        """How long the ranks may take to end by themselves after a skip or stop, in s.

        Ranks that train until they are stopped are sent the number of their last step. It is chosen ahead of all ranks:
        a rank that has already made more steps would wait for the others forever. changed_ns: when the delays were
        changed last (0: never); only steps since then show the pace that determines how far ahead.
        """
        if self._last_step is None and self._trial.trains_until_stopped and len(self._recent) == len(self._ranks):
            if not self._shows(changed_ns):
                return inf
            self._end_training()
        return self._grace_s if self._last_step is not None or self.has_trained() else 0.0

    def _shows(self, changed_ns: int) -> bool:
        """Whether every rank has made a step since the delays were changed, which may have changed the pace a lot."""
        begun_ns = (self.clocks.console_ns(rank, steps[-1].begin_ns) for rank, steps in self._recent.items())
        return changed_ns == 0 or min(begun_ns) > changed_ns + TAKEN_UP_NS

    def _end_training(self) -> None:
        if self._trial.strategy in (None, "none"):  # no rank waits for another one
            self._last_step = 0
            self.hub.send(LastStep(step=0))
            return
        steps_s = [[(step.end_ns - step.begin_ns) / S for step in steps] for steps in self._recent.values()]
        # The slowest rank sets the pace. The last step alone may be faster, if a delay was just removed: a pace that is
        # too slow would choose a last step that is too near.
        pace_s = min(max(mean(own) for own in steps_s), max(own[-1] for own in steps_s))
        made = [steps[-1].step for steps in self._recent.values()]
        alone = self._trial.every - 1  # steps that a rank makes without waiting for the others
        self._last_step = max(made) + alone + max(FEWEST_AHEAD, ceil(AHEAD_S / max(pace_s, SHORTEST_S)))
        to_go = self._last_step + alone - min(made)
        self._grace_s = min(LAST_WORDS_S + to_go * max(map(max, steps_s)), MOST_GRACE_S)
        self.hub.send(LastStep(step=self._last_step))

    def is_over(self) -> bool:
        """Whether the launcher has exited, or a deadline after a failure has passed."""
        self._exit_code = self.launch.exit_code
        if self._exit_code is None:
            self._look()
        return self._exit_code is not None or (self._deadline is not None and time.monotonic() > self._deadline)

    def ended(self) -> Ended:
        """The end of the launch, with the error if it failed."""
        why = self._failure()
        if why is None:
            return Ended(at_ns=time.monotonic_ns(), status="ok")
        return Ended(at_ns=time.monotonic_ns(), status="failed", error=why.text, failure=why)

    def _failure(self) -> Failure | None:
        if self._stall is not None:
            folder = self._repeat.folder
            kept = records_kept(self._repeat.flight_records(self._ranks), f"{folder.parent.name}/{folder.name}")
            log = f"rank-{self._stall.rank}.log"
            return failure.failure_of(self._stall.why + kept, self._repeat.log(log), rank=self._stall.suspect, name=log)
        if len(self._done) == len(self._ranks) and not self._exit_code:
            few = [steps for steps in self._steps.values() if steps <= self._trial.warmup_steps]
            is_too_short = few and self._trial.primitives is None
            nothing = f"all of its {few[-1]} steps are warm-up steps: nothing was measured" if is_too_short else None
            return Failure(summary=nothing) if nothing else None
        if self.hub.other_version:  # the ranks were stopped for that reason, so their logs tell nothing more
            return Failure(summary=self.hub.other_version)
        memory_was_short = machine.oom_kills() > self._killed_before
        if why := self.launch.end_reason():
            return failure.explain_end(why, self._trial, self._repeat.log(LAUNCHER_LOG), memory_was_short)
        return failure.explain_failure(
            trial=self._trial,
            exit_code=self._exit_code,
            launcher_log=self._repeat.log(LAUNCHER_LOG),
            rank_logs={rank: self._repeat.log(f"rank-{rank}.log") for rank in self._ranks},
            failed=self._failed,
            silent=self._silent,
            missing=self._missing(),
            memory_was_short=memory_was_short,
            one_process=self._trial.launch in ONE_PROCESS,
        )

    def _look(self) -> None:
        """Check the ranks' processes if a check is due. Sets a deadline if the launch has failed or all ranks are
        done."""
        since_s = time.monotonic() - self._looked_at
        if since_s < LOOK_EVERY_S:
            return
        if self.launch.is_waiting:
            self._last_connected = time.monotonic()  # the timeout for connecting begins once ranks can start
        if since_s > CONSOLE_PAUSE_S:  # heartbeats are only overdue because the console stood still
            self._stall_detector.restart_timers(time.monotonic_ns())
        self._looked_at = time.monotonic()
        states = {rank: self.launch.process_status(hello) for rank, hello in self.hub.hellos.items()}
        accounted = self._reported() | set(self._silent)
        self._silent += [rank for rank, state in states.items() if state is None and rank not in accounted]
        if self._deadline is not None:
            return
        if len(self._done) == len(self._ranks):
            self._end_within(LAUNCHER_EXIT_S)
        elif self._failed or self._silent:
            self._end_within(VERDICT_S)
        elif self._missing() and time.monotonic() - self._last_connected > START_S:
            self._end_within(0)
        elif stopped := self._stopped_before_hello():
            missing = self._missing()
            suspect = missing[0] if len(missing) == 1 else None
            self._stall = Stall(f"{stopped}; {no_progress(self._trial.stall_s)}", missing[0], suspect)
            self._end_within(0)
        elif stall := self._stalled({rank: state for rank, state in states.items() if state}):
            self._stall = stall
            self.hub.send(Stop(why=stall.why.splitlines()[0]))
            self._end_within(TRACEBACK_S)

    def _stalled(self, states: dict[int, str]) -> Stall | None:
        """The stall, if one has lasted for SURE_NS, during which no rank's helper processes worked."""
        now_ns = time.monotonic_ns()
        if stall := self._stall_detector.check(now_ns, states):
            # Helper processes are checked last, because that is slow, and each time, because a compiler sleeps between
            # files.
            asleep = [rank for rank, state in states.items() if state == psutil.STATUS_SLEEPING]
            at_work = [rank for rank in asleep if self.launch.helpers_work(self.hub.hellos[rank])]
            stall = self._stall_detector.check(now_ns, states | dict.fromkeys(at_work, psutil.STATUS_RUNNING))
        self._suspected_ns = (self._suspected_ns or now_ns) if stall else None
        return stall if self._suspected_ns and now_ns - self._suspected_ns >= SURE_NS else None

    def _stopped_before_hello(self) -> str | None:
        """A sentence about a process that has been stopped for long while ranks are missing: it may be one of them.
        None if there is no such process."""
        stopped = self.launch.stopped_processes() if self._missing() else []
        if not stopped:
            self._stopped_since = None
            return None
        self._stopped_since = self._stopped_since or time.monotonic()
        if time.monotonic() - self._stopped_since < self._trial.stall_s - IN_TIME_S:
            return None
        here, all_ranks = len(self.hub.hellos), len(self._ranks)
        return f"{here} of {all_ranks} ranks have connected, and process {stopped[0]} is stopped, as by SIGSTOP"

    def _reported(self) -> set[int]:
        """The ranks that have sent Done or Failed."""
        return self._done | {failed.rank for failed in self._failed}

    def _missing(self) -> list[int]:
        """The ranks that have not connected."""
        return [rank for rank in self._ranks if rank not in self.hub.hellos]

    def _end_within(self, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds
