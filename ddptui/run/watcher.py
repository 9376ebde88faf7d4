"""Follows a watched training. It is never ended here: its problems are only reported."""

import signal
import time
from collections.abc import Iterator, Sequence
from statistics import median

import msgspec
import psutil

from ddptui.analysis.clock_sync import Clocks, in_console_time
from ddptui.config.trial import Trial
from ddptui.diagnosis.cause import Evidence, ProcessEnd, first_cause, stopped_from_outside, thread_failure
from ddptui.diagnosis.positions import CallCountMismatch, RankProgress, describe_positions, named, verb
from ddptui.diagnosis.stall import MOST_STEPS_APART
from ddptui.engines.base import LAUNCHER_LOG, Launch
from ddptui.engines.hub import Hub
from ddptui.host import machine
from ddptui.run.supervisor import CONSOLE_PAUSE_S, LAST_WORDS_S, PACE_OVER, drained
from ddptui.store.journal import RepeatJournal
from ddptui.text.units import S
from ddptui.text.words import count
from ddptui.wire.messages import POINT_TO_POINT, Done, Failed, Heartbeat, Hello, RankMessage, Step
from ddptui.wire.records import Ended, Failure, Message, Notice, Restarted, Stop
from ddptui.wire.watching import Event

LOST_AFTER_S = 60.0  # without a message from any rank, a training without a local process counts as lost
NO_STEP_S = 60.0  # time after the start (on other hosts: after the first rank connected) until a notice about no steps
SLOW_STEPS = 5  # a step that takes this many usual steps is worth a notice, if that is longer than `stall_s`
INTERRUPTED = (-signal.SIGINT, 128 + signal.SIGINT)  # exit codes of commands that Ctrl-C has ended


class Attempt:
    """The ranks of a training from their start to their end, or until their launcher starts them again."""

    def __init__(self, number: int = 0) -> None:
        """number: how many attempts torchrun says there were before; 0 if it says nothing."""
        self.number = number
        self.threads: dict[int, str] = {}  # exceptions that have ended threads of ranks, in words
        self.ranks: dict[int, RankProgress] = {}
        self.pids: dict[int, int] = {}  # the ranks, by process id
        self.joining: set[int] = set()  # ranks that have called init_process_group
        self.joined: set[int] = set()
        self.world_size = self.launched = 0  # as joining ranks asked for, and as their launcher set; 0: not known
        self.failed: set[int] = set()  # ranks that have sent their last message, with an error
        self.ends: list[ProcessEnd] = []
        self.exit_codes: dict[int, int] = {}  # of ranks, as their launcher has seen them
        self._at_first_end: dict[int, RankProgress] = {}
        self.moved_at = time.monotonic()  # when a rank has made a step last
        self._steps_s: list[float] = []  # lengths of the last steps
        self._calls: dict[int, dict[int, int]] = {}  # by step and rank, of steps that not all ranks have reported
        self.mismatch: CallCountMismatch | None = None  # the first step in which ranks called different numbers
        self.is_told = False  # whether the present standstill was reported

    def add(self, message: RankMessage) -> None:
        """Process a message of a rank. Times must be those of the console's clock."""
        before = self.ranks.get(message.rank)
        match message:
            case Hello():
                self.pids[message.pid] = message.rank
                self._move()
                self._replace(message.rank, RankProgress())
            case Step() if before:
                self._steps_s = [*self._steps_s[-PACE_OVER:], (message.end_ns - message.begin_ns) / S]
                self._compare(message)
                if message.rank not in self.failed:  # else it is only now known that the last step was over
                    self._move()
                self._replace(message.rank, before, steps=message.step + 1, trains=True)
            case Heartbeat() if before:
                if message.position.step != before.position.step:
                    self._move()
                self._replace(message.rank, before, position=message.position, stack=message.stack)
            case Done() if before:
                self._replace(message.rank, before, is_over=True)
            case Failed() if before:
                self._at_first_end = self._at_first_end or dict(self.ranks)
                self.failed.add(message.rank)
                self._replace(message.rank, before, position=message.position, stack=message.stack)
                self.ends.append(
                    ProcessEnd(
                        rank=message.rank,
                        at_ns=message.at_ns,
                        error=message.error,
                        stack=message.stack,
                        workers=message.workers,
                        progress=self.ranks[message.rank],
                        grown_bytes=message.grown_bytes,
                    )
                )

    def _compare(self, step: Step) -> None:
        """Compare how many collectives of all ranks the ranks have called in a step."""
        if self.mismatch is not None:
            return
        calls = self._calls.setdefault(step.step, {})
        calls[step.rank] = sum(not call.group and call.kind not in POINT_TO_POINT for call in step.collectives)
        if len(calls) == len(self.ranks):
            self.mismatch = CallCountMismatch(step.step, calls) if len({*calls.values()}) > 1 else None
            del self._calls[step.step]
        elif len(self._calls) > MOST_STEPS_APART:
            del self._calls[min(self._calls)]

    def _replace(self, rank: int, progress: RankProgress, **new: object) -> None:
        self.ranks[rank] = msgspec.structs.replace(progress, **new)

    def _move(self) -> None:
        self.moved_at, self.is_told = time.monotonic(), False

    def add_event(self, event: Event) -> None:
        """Process an event of a process that no relay knows."""
        if event.what == "thread":
            rank = self.pids.get(event.pid, event.rank)
            if rank is not None:
                self.threads.setdefault(rank, thread_failure(event.error, event.stack))
            return
        if event.what != "failed":
            self.world_size = max(self.world_size, event.world or 0)
            self.launched = event.launched or self.launched
            if event.rank is not None:
                self.pids[event.pid] = event.rank
                (self.joining if event.what == "joins" else self.joined).add(event.rank)
            if event.what == "joins":
                self._move()
            return
        for failed_rank, pid, code in event.failures:
            self.pids.setdefault(pid or 0, failed_rank)
            self.exit_codes[failed_rank] = code if code is not None else 1
        if not event.failures:  # else the process is a launcher, whose own error only says that ranks have failed
            rank = self.pids.get(event.pid, None if event.rank in self.pids.values() else event.rank)
            of_launcher = event.rank is None and rank is None
            self.ends.append(
                ProcessEnd(
                    rank=None if of_launcher else rank,
                    at_ns=event.at_ns,
                    error=event.error,
                    stack=event.stack,
                    exit_code=event.exit,
                    workers=event.workers,
                    progress=self.ranks.get(rank) if rank is not None else None,
                )
            )

    def waiting_for_group(self) -> str:
        """A sentence about ranks that wait in init_process_group; empty if there are none."""
        waiting = sorted(self.joining - self.joined)
        missing = sorted({*range(self.world_size)} - self.joining)
        if not waiting:
            return ""
        others = f"; {named(missing)} {verb(missing, 'has')} not called it" if missing else ""
        return f"{named(waiting)} {verb(waiting, 'waits')} in init_process_group{others}"

    def running(self) -> list[int]:
        """The ranks that may still make steps."""
        return [rank for rank, progress in self.ranks.items() if not progress.is_over and rank not in self.failed]

    def positions(self) -> dict[int, RankProgress]:
        """Where the ranks were when the first of them ended. A rank that stood still then was where its last heartbeat
        says; of another one, its own end is a better witness than a heartbeat of up to a second before."""
        return {
            rank: still if (still := self._at_first_end.get(rank, now)).stack else now
            for rank, now in self.ranks.items()
        }

    def slow_after_s(self, stall_s: float) -> float:
        """The time without a step after which the training seems to stand still."""
        return max(stall_s, SLOW_STEPS * median(self._steps_s)) if self._steps_s else stall_s


class WatchSupervisor:
    """Tracks the state of a watched command. Call `add` and `is_over` alternately until it is over, then
    `last_messages`, then `ended`."""

    def __init__(self, trial: Trial, hub: Hub, launch: Launch, repeat: RepeatJournal) -> None:
        self._trial, self.hub, self.launch, self._repeat = trial, hub, launch, repeat
        self._steps: set[int] = set()  # ranks that have made a step
        self._done: set[int] = set()
        self._attempt = Attempt()
        self._restarts: list[Restarted] = []  # that were not taken yet
        self._killed_before = machine.oom_kills()
        self._exit_code: int | None = None
        # times by time.monotonic(); 0: not yet
        self._last_heard = self._last_look = 0.0
        self._began = 0.0 if launch.ends_with_ranks else time.monotonic()
        self._is_late_told = False
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
                    if message.rank in self._attempt.ranks:
                        self._read_events()
                    if message.rank in self._attempt.ranks:
                        self._begin_again(0)
                case Step():
                    self._steps.add(message.rank)
                case Done():
                    self._done.add(message.rank)
            self._attempt.add(in_console_time(message, self.clocks) if isinstance(message, Failed) else message)

    def _begin_again(self, number: int) -> None:
        """The launcher has started the ranks again. number: see Attempt."""
        failure = first_cause(self._evidence())
        self._restarts.append(Restarted(at_ns=time.monotonic_ns(), failure=failure))
        self._attempt = Attempt(number)

    def last_messages(self) -> Iterator[RankMessage]:
        """Yields the messages that are still queued after the command has ended or is no longer watched."""
        if self.launch.exit_code is None:
            self.hub.send(Stop(why="no longer watched"))
        self.launch.end_relay()
        return drained(self.hub, self.add, self._have_all_reported)

    def _have_all_reported(self) -> bool:
        return 0 < self.hub.world_size == len(self._attempt.ranks) and not self._attempt.running()

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
            # this console itself stood still, so messages may still be unread
            self._last_heard = self._attempt.moved_at = now
        self._last_look = now
        self._exit_code = self.launch.exit_code
        self._read_events()  # after the exit code: a launcher's last event is complete then
        ends_with_ranks = self.launch.ends_with_ranks or self._trial.steps is not None
        return self._exit_code is not None or (ends_with_ranks and self.has_trained()) or self._are_lost()

    def _read_events(self) -> None:
        for event in self.launch.take_events():
            if event.rank is not None and event.attempt > self._attempt.number:
                self._begin_again(event.attempt)
            self._attempt.add_event(event)

    def _are_lost(self) -> bool:
        is_silent = 0 < self._last_heard < time.monotonic() - LOST_AFTER_S
        return self.launch.ends_with_ranks and is_silent and not self.has_trained()

    def take_records(self) -> Iterator[Message]:
        """New records: that the ranks were restarted, that they stand still, and once, after NO_STEP_S, that there are
        no steps yet."""
        restarts, self._restarts = self._restarts, []
        yield from restarts
        for notice in (self._standstill(), self._late_start()):
            if notice:
                yield Notice(at_ns=time.monotonic_ns(), text=notice)

    def _standstill(self) -> str:
        """A notice about ranks that make no steps, once for each standstill; else empty."""
        attempt = self._attempt
        stood_s = time.monotonic() - attempt.moved_at
        waiting = attempt.waiting_for_group()
        if attempt.is_told or not (attempt.running() or waiting) or stood_s < attempt.slow_after_s(self._trial.stall_s):
            return ""
        attempt.is_told = True
        if not attempt.running():
            return f"no step for {stood_s:.0f} s: {waiting}"
        states = {rank: self.launch.process_status(hello) for rank, hello in self.hub.hellos.items()}
        seen = {
            rank: msgspec.structs.replace(progress, state=states.get(rank)) for rank, progress in attempt.ranks.items()
        }
        sentence, _ = describe_positions(seen, self.hub.world_size)
        failed = "".join(f"; a thread of rank {rank} has failed: {why}" for rank, why in attempt.threads.items())
        return f"no step for {stood_s:.0f} s: {sentence}{failed}"

    def _late_start(self) -> str:
        is_late = 0 < self._began < time.monotonic() - NO_STEP_S
        if not is_late or self._is_late_told or self._steps or self._attempt.waiting_for_group():
            return ""
        self._is_late_told = True
        return f"after {NO_STEP_S:.0f} s: {self._nothing_seen()}; still watching"

    def ended(self) -> Ended:
        """The end of the command, with an error if it failed or if nothing was measured."""
        if self._exit_code in INTERRUPTED:
            return Ended(at_ns=time.monotonic_ns(), status="interrupted")
        seen = self._evidence()
        if (failure := self._problem(seen)) is None:
            return Ended(at_ns=time.monotonic_ns(), status="ok")
        stopped = stopped_from_outside(seen)
        if stopped and stopped.summary == failure.summary and not self._attempt.is_told:
            return Ended(at_ns=time.monotonic_ns(), status="interrupted")  # as by Ctrl-C: it had not failed
        return Ended(at_ns=time.monotonic_ns(), status="failed", error=failure.text, failure=failure)

    def _problem(self, seen: Evidence) -> Failure | None:
        if self._exit_code or any(end.is_cause and end.error for end in self._attempt.ends if end.rank is not None):
            return first_cause(seen)
        if self._are_lost():
            lost = f"no message from its ranks for {LOST_AFTER_S:.0f} s: they were killed, or cannot be reached"
            return Failure(summary=lost)
        if self.hub.other_version:
            return Failure(summary=self.hub.other_version)
        return Failure(summary=self._nothing_seen()) if not self._steps else None

    def _evidence(self) -> Evidence:
        """What is known of the present attempt, which has ended."""
        attempt = self._attempt
        codes = {**attempt.exit_codes}
        if (rank := attempt.pids.get(getattr(self.launch, "pid", 0))) is not None and self._exit_code is not None:
            codes[rank] = self._exit_code  # the command is this rank
        ends = [
            msgspec.structs.replace(end, exit_code=codes.get(end.rank, end.exit_code))
            if end.rank is not None and not end.error
            else end
            for end in attempt.ends
        ]
        known = {end.rank for end in ends}
        ends += [
            ProcessEnd(rank=rank, at_ns=time.monotonic_ns(), exit_code=code, progress=attempt.ranks.get(rank))
            for rank, code in codes.items()
            if rank not in known and code
        ]
        return Evidence(
            trial=self._trial,
            exit_code=self._exit_code,
            ends=sorted(ends, key=lambda end: end.at_ns),
            positions=attempt.positions(),
            world_size=self.hub.world_size or attempt.world_size,
            threads=attempt.threads,
            mismatch=attempt.mismatch,
            launched=attempt.launched,
            joining=sorted(attempt.joining),
            memory_was_short=machine.oom_kills() > self._killed_before,
            stood_s=time.monotonic() - attempt.moved_at if attempt.is_told else 0.0,
            port_holder=port_holder,
            log=self._repeat.log(LAUNCHER_LOG),
        )

    def _nothing_seen(self) -> str:
        if waiting := self._attempt.waiting_for_group():
            return waiting
        if ranks := len(self.hub.hellos):
            return f"{count(ranks, 'rank')} connected, but no step of an optimizer was seen"
        return self.launch.end_reason() or "no rank was seen: no process computed a gradient with torch"


def port_holder(port: int) -> str:
    """The process of this host that uses a port, in words; empty if that is not known."""
    try:
        pids = [each.pid for each in psutil.net_connections("tcp") if each.laddr and each.laddr.port == port]
        process = psutil.Process(next(pid for pid in pids if pid))
        return f"process {process.pid} ({process.name()})"
    except (psutil.Error, OSError, StopIteration):
        return ""
