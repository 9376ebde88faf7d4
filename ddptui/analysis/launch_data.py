"""Sorts the messages of one launch by kind and rank, and aligns the steps of its ranks. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf

import msgspec

from ddptui.analysis.check_log import CheckLog, processes_of
from ddptui.analysis.clocks import Clocks, ClockSpread, clock_spread, in_console_time
from ddptui.analysis.correctness import sync_check
from ddptui.analysis.heartbeats import GpuReading, Loaders
from ddptui.analysis.primitive_results import PrimitivesLog
from ddptui.analysis.results import Check
from ddptui.analysis.thinning import StepsByRank, Thinned, ThinnedSteps
from ddptui.analysis.waits import AlignedSteps, align_steps
from ddptui.text.words import S
from ddptui.wire.messages import (
    Done,
    Fingerprint,
    Heartbeat,
    Hello,
    Line,
    Pause,
    Ready,
    Shown,
    Step,
    Timed,
    Trained,
)
from ddptui.wire.records import Ended, Injection, Launched, Load, Message, Notice, Refused, Restarted

MOST_PAUSES = MOST_LINES = 100_000  # kept per launch, so that no rank can fill the console's memory


class LaunchData(msgspec.Struct):
    """The messages of one launch. When the launch has ended, all times are converted to the console's clock."""

    launched: Launched | None = None
    begun_ns: int | None = None  # the last notice of a launch that waited in a queue: about when it left the queue
    ended: Ended | None = None
    hellos: dict[int, Hello] = {}
    ready: dict[int, Ready] = {}
    thinned: ThinnedSteps = msgspec.field(default_factory=ThinnedSteps)  # in a long launch, not all steps are kept
    trained: dict[int, Trained] = {}
    done: dict[int, Done] = {}
    fingerprints: dict[int, dict[int, Fingerprint]] = {}  # by step and rank, while some rank's is still missing
    checks: list[Check] = []  # one for each step for which all ranks sent a fingerprint
    pauses: list[Pause] = []
    loads: list[Load] = []
    gpu_readings: dict[int, Thinned[GpuReading]] = {}  # by rank; numbered by seconds
    injections: list[Injection] = []
    first_step_after: dict[int, int] = {}  # index of an injection -> the first step that any rank began after it
    restarts: dict[int, str] = {}  # last step before the ranks of a watched training were restarted -> why they ended
    why_again: str = ""  # why the ranks that were restarted last had ended, until the first one connects again
    again: set[int] = set()  # the ranks that have connected again since the last restart
    refused: int = 0
    loaders: dict[int, Loaders] = {}
    lines: dict[int, Line] = {}  # the lines of code for which numbers stand in steps
    of_checks: CheckLog = msgspec.field(default_factory=CheckLog)
    primitives: PrimitivesLog = msgspec.field(default_factory=PrimitivesLog)
    clocks: Clocks = msgspec.field(default_factory=Clocks)
    clock_spread: ClockSpread | None = None  # the clock error between ranks; None: they share one clock

    @property
    def steps(self) -> StepsByRank:
        """The kept steps, by rank, in the order received."""
        return self.thinned.kept

    @property
    def measured_steps(self) -> StepsByRank:
        """The kept steps without warm-up; an empty list for a rank that sent none."""
        ranks = self.hellos or self.steps
        return {rank: [step for step in self.steps.get(rank, ()) if not step.warmup] for rank in sorted(ranks)}

    def add(self, message: Message) -> None:
        """Take a message; kinds that no figure needs are dropped."""
        self.clocks.add(message)
        if self.launched is not None and self.launched.watched:
            self.of_checks.add(message)
        match message:
            case Step():
                self.thinned.add(message)
                self._note_injections(message)
            case Fingerprint() if not message.settings:
                self._check(message)
            case Line() if len(self.lines) < MOST_LINES:
                self.lines[message.number] = message
            case Pause() if len(self.pauses) < MOST_PAUSES:
                self.pauses.append(message)
            case Heartbeat():
                if message.gpu is not None:
                    readings = self.gpu_readings.setdefault(message.rank, Thinned())
                    readings.add(message.at_ns // S, GpuReading(message.at_ns, message.gpu))
                self.loaders.setdefault(message.rank, Loaders()).add(message)
            case Load():
                self.loads.append(message)
            case Injection():
                self.injections.append(message)
                # A step of a rank with another clock may arrive before the injection that it began after.
                for step in (step for steps in self.steps.values() for step in steps):
                    self._note_injections(step)
            case Refused():
                self.refused = message.count
            case Hello():
                if message.rank in self.thinned.totals and (not self.again or message.rank in self.again):
                    totals = self.thinned.totals.values()
                    self.restarts.setdefault(max((each.end or each.first).step for each in totals), self.why_again)
                    self.why_again = ""
                    self.again.clear()
                if message.rank in self.thinned.totals:
                    self.again.add(message.rank)
                self.hellos[message.rank] = message
            case Shown() | Timed():
                self.primitives.add(message)
            case Ready():
                self.ready[message.rank] = message
            case Trained():
                self.trained[message.rank] = message
            case Done():
                self.done[message.rank] = message
            case Launched():
                self.launched = message
                self.of_checks.asked = processes_of(message.command)
            # Notices of a queue arrive before the ranks connect; later notices do not concern the start.
            case Notice() if not self.hellos:
                self.begun_ns = message.at_ns
            case Restarted() if self.restarts and not self.restarts[max(self.restarts)]:
                self.restarts[max(self.restarts)] = message.failure.summary
            case Restarted():  # no rank has connected again yet
                self.why_again = message.failure.summary
            case Ended():
                self.ended = message
                self._bring_to_console_time()

    def _bring_to_console_time(self) -> None:
        """Convert all times to the console's clock. This is done at the end, when all clock probes are known."""
        measured = {rank: [step for step in steps if not step.warmup] for rank, steps in self.steps.items()}
        self.clock_spread = clock_spread(self.clocks, measured)
        if not self.clocks.of_rank:
            return
        # Convert everything with the same state of the clocks, so that a step and its pauses stay together.
        for rank, totals in self.thinned.totals.items():
            totals.begin_ns = self.clocks.console_ns(rank, totals.begin_ns)
            totals.first = in_console_time(totals.first, self.clocks)
            totals.begin = totals.begin and in_console_time(totals.begin, self.clocks)
            totals.end = totals.end and in_console_time(totals.end, self.clocks)
        for steps in self.steps.values():
            steps[:] = [in_console_time(step, self.clocks) for step in steps]
        for rank, readings in self.gpu_readings.items():
            readings.points = [
                (number, reading._replace(at_ns=self.clocks.console_ns(rank, reading.at_ns)))
                for number, reading in readings.points
            ]
        self.pauses = [in_console_time(pause, self.clocks) for pause in self.pauses]
        self.trained = {rank: in_console_time(trained, self.clocks) for rank, trained in self.trained.items()}

    def gpu_readings_within(self, span: Trained) -> list[GpuReading]:
        """The readings of a rank's GPU during its measured steps."""
        readings = self.gpu_readings.get(span.rank, Thinned()).points
        return [reading for _, reading in readings if span.begin_ns <= reading.at_ns <= span.end_ns]

    def _note_injections(self, step: Step) -> None:
        """Note for each injection whether this step began after it, with the clocks as known so far."""
        for index, injection in enumerate(self.injections):
            if self.clocks.console_ns(step.rank, step.begin_ns) >= injection.at_ns:
                self.first_step_after[index] = min(step.step, self.first_step_after.get(index, step.step))

    def _check(self, fingerprint: Fingerprint) -> None:
        """Store a fingerprint. Once all ranks have sent one for a step, keep only the comparison, to save memory."""
        copies = self.fingerprints.setdefault(fingerprint.step, {})
        copies[fingerprint.rank] = fingerprint
        hello = self.hellos.get(fingerprint.rank)
        if hello and len(copies) == hello.world_size:
            self.checks.append(sync_check([*self.fingerprints.pop(fingerprint.step).values()]))

    def span(self, rank: int) -> Trained | None:
        """The measured part of a rank's training, as reported or from its steps. None: no step was measured."""
        return self.trained.get(rank) or self.thinned.totals[rank].span()

    @property
    def clocks_known(self) -> bool:
        """Whether the clocks of all measured ranks were compared. If not, steps of different ranks cannot be
        aligned."""
        return self.clock_spread is None or self.clock_spread.largest_ns(self.measured_steps) < inf

    def align_measured(self) -> AlignedSteps:
        """Aligns the measured steps of all ranks. Steps that cannot be compared are among the mismatches."""
        devices = {rank: hello.device for rank, hello in self.hellos.items()}
        aligned = align_steps(self.measured_steps, self.pauses, self.clock_spread, devices)
        return aligned._replace(lines=self.lines, loaders=self.loaders)


def launch_logs(messages: Iterable[Message]) -> Iterator[LaunchData]:
    """Yields a log for each launch of a run when the launch has ended."""
    log = LaunchData()
    for message in messages:
        log.add(message)
        if isinstance(message, Ended):
            yield log
            log = LaunchData()


def steps_within(steps: Mapping[int, Sequence[Step]], numbers: range) -> dict[int, list[Step]]:
    """The steps of all ranks with numbers in this range."""
    return {rank: [step for step in of_rank if step.step in numbers] for rank, of_rank in steps.items()}


def injected_delay_s(steps: Mapping[int, Sequence[Step]]) -> float:
    """The delays injected into these steps, summed over ranks, in s."""
    slept = (slept for of_rank in steps.values() for step in of_rank for slept in step.slept)
    return sum(delay.end_ns - delay.begin_ns for delay in slept) / S
