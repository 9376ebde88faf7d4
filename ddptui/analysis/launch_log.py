"""The messages of one launch, sorted by kind and rank. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar, cast

import msgspec

from ddptui.analysis.clock_sync import Clocks, ClockSpread, clock_spread, in_console_time
from ddptui.analysis.correctness import sync_checks
from ddptui.analysis.primitives.collect import PrimitivesLog
from ddptui.analysis.results import (
    Check,
)
from ddptui.analysis.thinning import RankTotals, StepsByRank, ThinnedSteps
from ddptui.text.units import S
from ddptui.wire.messages import Done, Fingerprint, Hello, Pause, Ready, Shown, Step, Timed, Trained
from ddptui.wire.records import Ended, Injection, Launched, Load, Message, Notice, Refused

MOST_PAUSES = 100_000
RankTimes = TypeVar("RankTimes", Step, Pause, Trained)


class LaunchLog(msgspec.Struct):
    """The messages of one repeat, sorted; by rank, in the order received. Of a long one, not all steps are kept. Once
    it has ended, all times are by the console's clock; apart: how far the ranks' may be, if they have several."""

    launched: Launched | None = None
    begun_ns: int | None = None  # when a launch that waited elsewhere, in a queue, said so last
    ended: Ended | None = None
    hellos: dict[int, Hello] = {}
    ready: dict[int, Ready] = {}
    thinned: ThinnedSteps = msgspec.field(default_factory=ThinnedSteps)
    trained: dict[int, Trained] = {}
    done: dict[int, Done] = {}
    fingerprints: dict[int, dict[int, Fingerprint]] = {}  # by step and rank, of steps that not all ranks have told of
    checks: list[Check] = []  # of those that all have
    pauses: list[Pause] = []
    loads: list[Load] = []
    injections: list[Injection] = []
    first_step_after: dict[int, int] = {}  # by an injection's place, the first step that any rank began after it
    refused: int = 0
    primitives: PrimitivesLog = msgspec.field(default_factory=PrimitivesLog)
    clocks: Clocks = msgspec.field(default_factory=Clocks)
    clock_spread: ClockSpread | None = None

    @property
    def steps(self) -> StepsByRank:
        """Those that are kept."""
        return self.thinned.kept

    def add(self, message: Message) -> None:
        self.clocks.add(message)
        match message:
            case Step():
                self.thinned.add(message)
                self._place(message)
            case Fingerprint():
                self._check(message)
            case Pause() if len(self.pauses) < MOST_PAUSES:
                self.pauses.append(message)
            case Load():
                self.loads.append(message)
            case Injection():
                self.injections.append(message)
                for step in (step for own in self.steps.values() for step in own):
                    self._place(step)
            case Refused():
                self.refused = message.count
            case Hello():
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
            case Notice() if not self.hellos:
                self.begun_ns = message.at_ns
            case Ended():
                self.ended = message
                self._align()

    def _align(self) -> None:
        """Bring all times to the console's clock, now that all is known of the others."""
        measured = {rank: [step for step in own if not step.warmup] for rank, own in self.steps.items()}
        self.clock_spread = clock_spread(self.clocks, measured)
        if not self.clocks.of_rank:
            return
        kept = {rank: [self._by_console(step) for step in own] for rank, own in self.steps.items()}
        told = {rank: self._told_by_console(rank, each) for rank, each in self.thinned.totals.items()}
        self.thinned = msgspec.structs.replace(self.thinned, kept=kept, told=told)
        self.pauses = [self._by_console(each) for each in self.pauses]
        self.trained = {rank: self._by_console(each) for rank, each in self.trained.items()}

    def _told_by_console(self, rank: int, told: RankTotals) -> RankTotals:
        return msgspec.structs.replace(
            told,
            first=self._by_console(told.first),
            begin_ns=self.clocks.console_ns(rank, told.begin_ns),
            begin=told.begin and self._by_console(told.begin),
            end=told.end and self._by_console(told.end),
        )

    def _by_console(self, words: RankTimes) -> RankTimes:
        return cast(RankTimes, in_console_time(words, self.clocks))

    def _place(self, step: Step) -> None:
        """Before or after the delays that were put in by hand, as far as is known of the clocks by then."""
        for place, injection in enumerate(self.injections):
            if self.clocks.console_ns(step.rank, step.begin_ns) >= injection.at_ns:
                self.first_step_after[place] = min(step.step, self.first_step_after.get(place, step.step))

    def _check(self, words: Fingerprint) -> None:
        """Once all ranks have told their hashes, only what they come to is kept."""
        copies = self.fingerprints.setdefault(words.step, {})
        copies[words.rank] = words
        hello = self.hellos.get(words.rank)
        if hello and len(copies) == hello.world_size:
            self.checks += sync_checks({words.step: self.fingerprints.pop(words.step)}, len(copies))

    def span(self, rank: int) -> Trained | None:
        """What a rank has said without instruments, or would have said of its steps."""
        return self.trained.get(rank) or self.thinned.totals[rank].span()

    def all_checks(self) -> list[Check]:
        return sorted([*self.checks, *sync_checks(self.fingerprints, len(self.hellos))], key=lambda check: check.step)


def launch_logs(messages: Iterable[Message]) -> Iterator[LaunchLog]:
    """What was heard of each launch, once it has ended."""
    heard = LaunchLog()
    for message in messages:
        heard.add(message)
        if isinstance(message, Ended):
            yield heard
            heard = LaunchLog()


def steps_within(steps: Mapping[int, Sequence[Step]], numbers: range) -> dict[int, list[Step]]:
    """Of all ranks' steps, those with these numbers."""
    return {rank: [step for step in own if step.step in numbers] for rank, own in steps.items()}


def injected_delay_s(steps: Mapping[int, Sequence[Step]]) -> float:
    """The delays that were put into these steps, on all ranks together."""
    return sum(each.end_ns - each.begin_ns for own in steps.values() for step in own for each in step.slept) / S
