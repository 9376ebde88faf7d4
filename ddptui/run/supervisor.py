"""Supervises one launch until it ends, or fails because a rank died, hangs, or never connected."""

import time
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from math import ceil, inf
from statistics import mean

import psutil

from ddptui.analysis.clocks import Clocks, in_console_time
from ddptui.config.catalog import ONE_PROCESS
from ddptui.config.trial import Trial
from ddptui.diagnosis import failure
from ddptui.diagnosis.positions import Stall, records_kept
from ddptui.diagnosis.stall import StallDetector
from ddptui.engines.base import LAUNCHER_LOG, Launch
from ddptui.engines.rank_server import RankServer
from ddptui.host import machine
from ddptui.store.journal import RepeatJournal
from ddptui.text.words import S
from ddptui.wire.messages import Done, Failed, Hello, RankMessage, Ready, Shown, Step, Timed
from ddptui.wire.records import Ended, Failure, LastStep, Message, Notice, Refused, Stop

LOOK_EVERY_S = 0.25  # interval between two checks of the processes, which read files in /proc: too slow per message
CONSOLE_PAUSE_S = 3.0  # a check this late means that the console itself stood still (suspended, swapped out)
SURE_NS = 500_000_000  # how long a stall must last before it is reported
VERDICT_S = 5.0  # time after the first sign of failure for the launcher, on a busy machine, to say which rank it was
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


class Supervisor:
    """Tracks the state of a launch from its ranks' messages and its processes. Call `add`, `take_records` and `is_over`
    until the launch is over, then `last_messages`, then `ended` for the outcome."""

    def __init__(self, trial: Trial, hub: RankServer, launch: Launch, repeat: RepeatJournal) -> None:
        self._trial, self.hub, self.launch, self._repeat = trial, hub, launch, repeat
        self.clocks = Clocks()  # needed to decide across hosts which rank failed first
        self._ready: set[int] = set()
        self._last: dict[int, Done | Failed] = {}  # the last messages of ranks
        self._killed_before = machine.oom_kills()
        self._exit_code: int | None = None
        self._looked_at = 0.0
        self._refused = 0  # number of rejected connections that were reported

    def add(self, messages: Sequence[RankMessage]) -> None:
        """Process messages of ranks."""
        for message in messages:
            self.clocks.add(message)
            match message:
                case Hello():  # of a watched training, the rank may have been started again
                    self.launch.add_rank(message)
                    self._last.pop(message.rank, None)
                case Done() | Failed():
                    message = self._last[message.rank] = in_console_time(message, self.clocks)
            self._add(message)

    def _add(self, message: RankMessage) -> None:
        raise NotImplementedError

    def is_over(self) -> bool:
        """Whether the launch is over: its launcher, or the command, has ended."""
        self._exit_code = self.launch.exit_code
        return self._exit_code is not None

    def grace_s(self, changed_ns: int) -> float:
        """How long the ranks may take to end by themselves after a skip or stop, in s. changed_ns: when the delays were
        changed last; 0: never."""
        return LAST_WORDS_S if self.has_trained() else 0.0

    def all_here(self) -> bool:
        """Whether every rank has connected."""
        return self._are_all(self.hub.hellos)

    def all_ready(self) -> bool:
        """Whether every rank has loaded its model and data; of a watched training, whether it has made a step."""
        return self._are_all(self._ready)

    def has_trained(self) -> bool:
        """Whether every rank has finished its last step."""
        return self._are_all(self._done())

    def _done(self) -> set[int]:
        return {rank for rank, last in self._last.items() if isinstance(last, Done)}

    def _are_all(self, ranks: Collection[int]) -> bool:
        return 0 < self.hub.world_size == len(ranks)

    def take_records(self) -> Iterator[Message]:
        """New records: notices of the launch, and the first connections that were rejected."""
        for text in self.launch.take_notices():
            yield Notice(at_ns=time.monotonic_ns(), text=text)
        yield from self._rejected() if not self._refused else ()

    def last_messages(self) -> Iterator[Message]:
        """Yields the messages that are still queued after the launch has ended, and the number of all connections that
        were rejected."""
        deadline = time.monotonic() + DRAIN_S
        while time.monotonic() < deadline:
            refused = self.hub.refused
            messages = self.hub.receive(0 if self._are_all(self._last) else ON_THEIR_WAY_MS)
            self.add(messages)
            yield from messages
            if not messages and self.hub.refused == refused:  # else ranks' messages may still follow
                break
        yield from self._rejected()

    def _rejected(self) -> Iterator[Message]:
        if self.hub.refused > self._refused:
            self._refused = self.hub.refused
            yield Refused(at_ns=time.monotonic_ns(), count=self.hub.refused, why=self.hub.first_refusal)

    def ended(self) -> Ended:
        """The end of the launch, with the error if it failed."""
        if (why := self._failure()) is None:
            return Ended(at_ns=time.monotonic_ns(), status="ok")
        return Ended(at_ns=time.monotonic_ns(), status="failed", error=why.text, failure=why)

    def _failure(self) -> Failure | None:
        raise NotImplementedError

    def _states(self) -> dict[int, str | None]:
        """The states of the ranks' processes, as psutil names them; None: the process has ended."""
        return {rank: self.launch.process_status(hello) for rank, hello in self.hub.hellos.items()}

    def _stood_still(self) -> bool:
        """Whether the console itself stood still since the last call: then missing messages prove nothing."""
        before, self._looked_at = self._looked_at, time.monotonic()
        return self._looked_at - before > CONSOLE_PAUSE_S


class LaunchSupervisor(Supervisor):
    """Supervises a launch of the lab, and ends it when it has failed."""

    def __init__(self, trial: Trial, hub: RankServer, launch: Launch, repeat: RepeatJournal) -> None:
        super().__init__(trial, hub, launch, repeat)
        self._ranks = range(trial.world_size)
        start_s = inf if trial.download else START_S  # a download may take any time
        self._stall_detector = StallDetector(
            trial.world_size, trial.stall_s, start_s=start_s, beats=trial.instruments == "on"
        )
        self._stall: Stall | None = None
        self._suspected_ns: int | None = None  # when the current suspicion of a stall began
        self._steps: dict[int, int] = {}  # number of planned steps of each rank, if it is known
        self._recent: dict[int, deque[Step]] = {}  # the last steps of each rank
        self._last_step: int | None = None  # the last step, after the user has stopped the training
        self._grace_s = LAST_WORDS_S
        self._trained: set[int] = set()
        self._silent: list[int] = []  # ranks that died without sending Failed, in the order in which that was noticed
        self._last_connected = time.monotonic()
        self._deadline: float | None = None

    def _add(self, message: RankMessage) -> None:
        self._stall_detector.add(message, time.monotonic_ns())
        match message:
            case Hello():
                self._last_connected = time.monotonic()
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

    def has_trained(self) -> bool:
        return self._are_all(self._trained | self._done())

    def grace_s(self, changed_ns: int) -> float:
        """How long the ranks may take to end by themselves after a skip or stop, in s.

        Ranks that train until they are stopped are sent the number of their last step. It is chosen ahead of all ranks:
        a rank that has already made more steps would wait for the others forever. Only steps since the last change of
        delays show the pace that determines how far ahead.
        """
        if self._last_step is None and self._trial.trains_until_stopped and len(self._recent) == len(self._ranks):
            begun_ns = [self.clocks.console_ns(rank, steps[-1].begin_ns) for rank, steps in self._recent.items()]
            if changed_ns and min(begun_ns) <= changed_ns + TAKEN_UP_NS:
                return inf
            self._end_training()
        return self._grace_s if self._last_step is not None else super().grace_s(changed_ns)

    def _end_training(self) -> None:
        made = [steps[-1].step for steps in self._recent.values()]
        self._last_step = 0
        if self._trial.strategy not in (None, "none"):  # else no rank waits for another one
            steps_s = [[(step.end_ns - step.begin_ns) / S for step in steps] for steps in self._recent.values()]
            # The slowest rank sets the pace. The last step alone may be faster, if a delay was just removed: a pace
            # that is too slow would choose a last step that is too near.
            pace_s = min(max(mean(own) for own in steps_s), max(own[-1] for own in steps_s))
            alone = self._trial.every - 1  # steps that a rank makes without waiting for the others
            self._last_step = max(made) + alone + max(FEWEST_AHEAD, ceil(AHEAD_S / max(pace_s, SHORTEST_S)))
            to_go = self._last_step + alone - min(made)
            self._grace_s = min(LAST_WORDS_S + to_go * max(map(max, steps_s)), MOST_GRACE_S)
        self.hub.send(LastStep(step=self._last_step))

    def is_over(self) -> bool:
        """Whether the launcher has exited, or a deadline after a failure has passed."""
        if super().is_over():
            return True
        if time.monotonic() - self._looked_at >= LOOK_EVERY_S:
            self._look()
        return self._deadline is not None and time.monotonic() > self._deadline

    def _failure(self) -> Failure | None:
        if self._stall is not None:
            folder = self._repeat.folder
            kept = records_kept(self._repeat.flight_records(self._ranks), f"{folder.parent.name}/{folder.name}")
            log = f"rank-{self._stall.rank}.log"
            return failure.failure_of(self._stall.why + kept, self._repeat.log(log), rank=self._stall.suspect, name=log)
        if self._are_all(self._done()) and not self._exit_code:
            few = [steps for steps in self._steps.values() if steps <= self._trial.warmup_steps]
            if not few or self._trial.primitives is not None:
                return None
            return Failure(summary=f"all of its {few[-1]} steps are warm-up steps: nothing was measured")
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
            failed=[last for last in self._last.values() if isinstance(last, Failed)],
            silent=self._silent,
            missing=[rank for rank in self._ranks if rank not in self.hub.hellos],
            memory_was_short=memory_was_short,
            one_process=self._trial.launch in ONE_PROCESS,
        )

    def _look(self) -> None:
        """Check the ranks' processes. Sets a deadline if the launch has failed or all ranks are done."""
        if self.launch.is_waiting:
            self._last_connected = time.monotonic()  # the timeout for connecting begins once ranks can start
        if self._stood_still():
            self._stall_detector.restart_timers(time.monotonic_ns())
        states = self._states()
        known = (*self._last, *self._silent)
        self._silent += [rank for rank, state in states.items() if state is None and rank not in known]
        if self._deadline is not None:
            return
        if self._are_all(self._done()):
            self._end_within(LAUNCHER_EXIT_S)
        elif self._silent or any(isinstance(last, Failed) for last in self._last.values()):
            self._end_within(VERDICT_S)
        elif not self.all_here() and time.monotonic() - self._last_connected > START_S:
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

    def _end_within(self, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds
