"""Follows a watched training, which is never ended here; and decides how often ranks sample their lines of code."""

import signal
import time
from collections.abc import Iterator, Sequence
from statistics import median

from msgspec.structs import replace

from ddptui.analysis.policy import MATTERS
from ddptui.config.trial import Trial
from ddptui.diagnosis.attempt import Attempt
from ddptui.diagnosis.cause import Evidence, first_cause, stopped_from_outside
from ddptui.diagnosis.positions import describe_positions
from ddptui.engines.base import LAUNCHER_LOG, Launch
from ddptui.engines.rank_server import RankServer
from ddptui.host import machine
from ddptui.host.network import port_holder
from ddptui.run.supervisor import Supervisor
from ddptui.store.journal import RepeatJournal
from ddptui.text.words import count
from ddptui.wire.messages import Hello, RankMessage, Step
from ddptui.wire.records import Ended, Failure, Message, Notice, Restarted

PER_S, PER_S_IF_LATE = 10, 25  # the same on all ranks: otherwise the sampling itself would make one late
HOLDS_S = 10.0  # how long the higher rate lasts at least
MEMORY = 20  # steps over which a rank's idle share is averaged, about


class SamplingPace:
    """Follows how long each rank stands idle. A rank is probably late if it does so much less than another."""

    def __init__(self) -> None:
        self.per_s = PER_S
        self._idle: dict[int, tuple[float, float]] = {}  # by rank: idle time and length of its last steps, ns
        self._late_at = -HOLDS_S

    def add(self, messages: Sequence[Message]) -> bool:
        """Process the messages of ranks. Returns whether the rate has changed."""
        for step in (message for message in messages if isinstance(message, Step)):
            idle_ns, length_ns = self._idle.get(step.rank, (0.0, 0.0))
            left = 1 - 1 / MEMORY
            idle_ns = idle_ns * left + sum(max(0, call.exit_ns - call.awaited_ns) for call in step.collectives)
            self._idle[step.rank] = idle_ns, length_ns * left + step.end_ns - step.begin_ns
        shares = [idle_ns / length_ns for idle_ns, length_ns in self._idle.values() if length_ns]
        now = time.monotonic()
        if shares and max(shares) - min(shares) >= MATTERS:
            self._late_at = now
        before, self.per_s = self.per_s, PER_S_IF_LATE if now - self._late_at < HOLDS_S else PER_S
        return before != self.per_s


LOST_AFTER_S = 60.0  # without a message from any rank, a training without a local process counts as lost
NO_STEP_S = 60.0  # time after the start until a notice that no rank was seen
SLOW_STEPS = 5  # a step that takes this many usual steps is worth a notice, if that is longer than `stall_s`
INTERRUPTED = (-signal.SIGINT, 128 + signal.SIGINT)  # exit codes of commands that Ctrl-C has ended


class WatchSupervisor(Supervisor):
    """Supervises a watched command. Its problems do not end it."""

    def __init__(self, trial: Trial, hub: RankServer, launch: Launch, repeat: RepeatJournal) -> None:
        super().__init__(trial, hub, launch, repeat)
        self._attempt = Attempt(time.monotonic())
        self._restarts: list[Restarted] = []  # that were not taken yet
        self._last_heard = 0.0  # by time.monotonic(); 0: not yet

    def _add(self, message: RankMessage) -> None:
        self._last_heard = time.monotonic()
        if isinstance(message, Hello) and message.rank in self._attempt.ranks:
            self._read_events()  # torchrun may say there that a new attempt has begun
            if message.rank in self._attempt.ranks:
                self._begin_again(0)
        elif isinstance(message, Step):
            self._ready.add(message.rank)
        self._attempt.add(message, time.monotonic())

    def _begin_again(self, number: int) -> None:
        """The launcher has started the ranks again. number: see Attempt."""
        self._restarts.append(Restarted(at_ns=time.monotonic_ns(), failure=first_cause(self._evidence())))
        self._attempt = Attempt(time.monotonic(), number)

    def is_over(self) -> bool:
        """Whether the watching is over: the command has ended, or the requested number of steps was watched; for a
        command on other hosts, its ranks are done or lost."""
        if self._stood_still():  # messages may still be unread
            self._attempt.moved_at = time.monotonic()
            self._last_heard = self._last_heard and time.monotonic()
        is_over = super().is_over()
        self._read_events()  # after the exit code: a launcher's last event is complete then
        ends_with_ranks = self.launch.ends_with_ranks or self._trial.steps is not None
        return is_over or (ends_with_ranks and self.has_trained()) or self._are_lost()

    def _read_events(self) -> None:
        for event in self.launch.take_events():
            if event.rank is not None and event.attempt > self._attempt.number:
                self._begin_again(event.attempt)
            self._attempt.add_event(event, time.monotonic())

    def _are_lost(self) -> bool:
        is_silent = 0 < self._last_heard < time.monotonic() - LOST_AFTER_S
        return self.launch.ends_with_ranks and is_silent and not self.has_trained()

    def take_records(self) -> Iterator[Message]:
        """Also that the ranks were restarted; and once for each standstill, where ranks that make no steps are, or that
        there are no ranks."""
        yield from super().take_records()
        while self._restarts:
            yield self._restarts.pop(0)
        attempt, stood_s = self._attempt, time.monotonic() - self._attempt.moved_at
        if attempt.is_told or stood_s < min(self._trial.stall_s, NO_STEP_S):  # as nearly always
            return
        runs = any(not progress.is_over and rank not in attempt.failed for rank, progress in attempt.ranks.items())
        where = attempt.waiting_for_group()
        is_expected = not self._ready and not self.launch.ends_with_ranks  # elsewhere, the training may start any time
        slow_s = max(self._trial.stall_s, SLOW_STEPS * median(attempt.steps_s or [0.0]))
        after_s = slow_s if runs or where else NO_STEP_S
        if not (runs or where or is_expected) or stood_s < after_s:
            return
        attempt.told_at = attempt.moved_at
        if runs:
            states = self._states()
            seen = {rank: replace(progress, state=states.get(rank)) for rank, progress in attempt.ranks.items()}
            where, _ = describe_positions(seen, self.hub.world_size)
            where += "".join(f"; a thread of rank {rank} has failed: {why}" for rank, why in attempt.threads().items())
        text = f"no step for {stood_s:.0f} s: {where or self._nothing_seen()}"
        yield Notice(at_ns=time.monotonic_ns(), text=text)

    def ended(self) -> Ended:
        """The end of the command, with an error if it failed or if nothing was measured. Interrupted, as by Ctrl-C, if
        it was ended from outside before it failed."""
        ended, seen = super().ended(), self._evidence()
        stopped = None if seen.stood_s else stopped_from_outside(seen)
        is_stopped = stopped and ended.failure and stopped.summary == ended.failure.summary
        if self._exit_code in INTERRUPTED or is_stopped:
            return Ended(at_ns=ended.at_ns, status="interrupted")
        return ended

    def _failure(self) -> Failure | None:
        seen = self._evidence()
        if self._exit_code or any(end.is_cause and end.error for end in seen.ends if end.rank is not None):
            return first_cause(seen)
        lost = f"no message from its ranks for {LOST_AFTER_S:.0f} s: they were killed, or cannot be reached"
        why = lost if self._are_lost() else self.hub.other_version or ("" if self._ready else self._nothing_seen())
        return Failure(summary=why) if why else None

    def _evidence(self) -> Evidence:
        """What is known of the present attempt, which has ended."""
        attempt = self._attempt
        codes = {rank: 1 if code is None else code for event in attempt.events for rank, _, code in event.failures}
        own = attempt.pids.get(getattr(self.launch, "pid", 0))
        if own is not None and self._exit_code is not None:
            codes[own] = self._exit_code  # the command is this rank
        return Evidence(
            trial=self._trial,
            exit_code=self._exit_code,
            ends=attempt.ends(codes, time.monotonic()),
            positions=attempt.positions(),
            world_size=self.hub.world_size or attempt.world_size,
            threads=attempt.threads(),
            mismatch=attempt.calls.mismatch,
            launched=max((event.launched or 0 for event in attempt.events), default=0),
            joining=sorted(attempt.joining()),
            memory_was_short=machine.oom_kills() > self._killed_before,
            stood_s=time.monotonic() - attempt.moved_at if attempt.is_told and attempt.pids else 0.0,
            port_holder=port_holder,
            log=self._repeat.log(LAUNCHER_LOG),
        )

    def _nothing_seen(self) -> str:
        if waiting := self._attempt.waiting_for_group():
            return waiting
        if ranks := len(self.hub.hellos):
            return f"{count(ranks, 'rank')} connected, but no step of an optimizer was seen"
        return self.launch.end_reason() or "no rank was seen: no process computed a gradient with torch"
