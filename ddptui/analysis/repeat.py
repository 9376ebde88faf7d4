"""What one repeat of a trial shows: its messages in, its figures out. Pure: no I/O, no clock."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from statistics import fmean, median, quantiles
from types import MappingProxyType
from typing import Any, Literal, TypeVar, cast

import msgspec

from ddptui.analysis import cautions, clock_error
from ddptui.analysis.clock_sync import Clocks, ClockSpread, clock_spread, in_console_time
from ddptui.analysis.correctness import averaging, in_sync, reshuffled, sync_checks
from ddptui.analysis.primitives.collect import PrimitivesLog
from ddptui.analysis.primitives.results import PrimitivesResult
from ddptui.analysis.results import (
    Change,
    Check,
    ConfidenceInterval,
    Culprit,
    Injected,
    Loss,
    PhasesMs,
    RankResult,
    RepeatResult,
    StepMs,
    WhatIf,
)
from ddptui.analysis.thinning import RankTotals, StepsByRank, ThinnedSteps, close_gaps, count_steps, drop_inconsistent
from ddptui.analysis.verdict import WaitAnalysis, analyze_aligned, what_if
from ddptui.analysis.waits import AlignedSteps, RankStep, align_steps
from ddptui.wire.messages import PHASES, Done, Fingerprint, Hello, Pause, Ready, Shown, Step, Timed, Trained
from ddptui.wire.records import Ended, Injection, Launched, Load, Message, Notice, Refused

MS = 1e6  # ns
S = 1e9  # ns
A_TENTH = 10
MOST_PAUSES = 100_000


class RepeatOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """How one repeat of a trial ended; `result` if it ended well; `primitives`, what there is of them in any case."""

    trial: str
    repeat: int
    command: tuple[str, ...]
    status: Literal["ok", "failed", "interrupted", "skipped"]
    error: str | None = None
    result: RepeatResult | None = None
    primitives: PrimitivesResult | None = None


RankTimes = TypeVar("RankTimes", Step, Pause, Trained)
Outcomes = Mapping[tuple[str, int], RepeatOutcome]  # by trial and repeat
NO_OUTCOMES: Outcomes = MappingProxyType({})


class LaunchLog(msgspec.Struct):
    """The messages of one repeat, sorted; by rank, in the order received. Of a long one, not all steps are kept. Once
    it has ended, all times are by the console's clock; apart: how far the ranks' may be, if they have several."""

    launched: Launched | None = None
    begun_ns: int | None = None  # when a launch that waited elsewhere, in a queue, said so last
    ended: Ended | None = None
    hellos: dict[int, Hello] = {}
    ready: dict[int, Ready] = {}
    blocks: ThinnedSteps = msgspec.field(default_factory=ThinnedSteps)
    trained: dict[int, Trained] = {}
    done: dict[int, Done] = {}
    prints: dict[int, dict[int, Fingerprint]] = {}  # by step and rank, of steps that not all ranks have told of
    checks: list[Check] = []  # of those that all have
    pauses: list[Pause] = []
    loads: list[Load] = []
    injections: list[Injection] = []
    after: dict[int, int] = {}  # by an injection's place, the first step that any rank began after it
    refused: int = 0
    primitives: PrimitivesLog = msgspec.field(default_factory=PrimitivesLog)
    clocks: Clocks = msgspec.field(default_factory=Clocks)
    apart: ClockSpread | None = None

    @property
    def steps(self) -> StepsByRank:
        """Those that are kept."""
        return self.blocks.kept

    def add(self, message: Message) -> None:
        self.clocks.add(message)
        match message:
            case Step():
                self.blocks.add(message)
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
        self.apart = clock_spread(self.clocks, measured)
        if not self.clocks.of_rank:
            return
        kept = {rank: [self._by_console(step) for step in own] for rank, own in self.steps.items()}
        told = {rank: self._told_by_console(rank, each) for rank, each in self.blocks.told.items()}
        self.blocks = msgspec.structs.replace(self.blocks, kept=kept, told=told)
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
                self.after[place] = min(step.step, self.after.get(place, step.step))

    def _check(self, words: Fingerprint) -> None:
        """Once all ranks have told their hashes, only what they come to is kept."""
        copies = self.prints.setdefault(words.step, {})
        copies[words.rank] = words
        hello = self.hellos.get(words.rank)
        if hello and len(copies) == hello.world_size:
            self.checks += sync_checks({words.step: self.prints.pop(words.step)}, len(copies))

    def span(self, rank: int) -> Trained | None:
        """What a rank has said without instruments, or would have said of its steps."""
        return self.trained.get(rank) or self.blocks.told[rank].span()

    def all_checks(self) -> list[Check]:
        return sorted([*self.checks, *sync_checks(self.prints, len(self.hellos))], key=lambda check: check.step)


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


def outcome_of_messages(messages: Iterable[Message]) -> RepeatOutcome | None:
    """Read one repeat's messages. None if it was never launched."""
    heard = LaunchLog()
    for message in messages:
        heard.add(message)
    return outcome_of_log(heard)


def outcome_of_log(heard: LaunchLog) -> RepeatOutcome | None:
    """The same of what was heard already."""
    if heard.launched is None:
        return None
    status = heard.ended.status if heard.ended else "interrupted"
    error = heard.ended.error if heard.ended else None
    result = None
    took_s = None
    if heard.ended and heard.ended.status == "ok":
        error = _missing(heard)
        if error:
            status = "failed"
        elif heard.primitives.places:
            took_s = (heard.ended.at_ns - heard.launched.at_ns) / S
        else:
            result = _result(heard, heard.launched)
    return RepeatOutcome(
        trial=heard.launched.trial,
        repeat=heard.launched.repeat,
        command=heard.launched.command,
        status=status,
        error=error,
        result=result,
        primitives=_primitives(heard, took_s),
    )


def _primitives(heard: LaunchLog, took_s: float | None) -> PrimitivesResult | None:
    """What there is of them, also of a launch that did not come to its end."""
    hello = next(iter(heard.hellos.values()), None)
    return heard.primitives.result(hello, took_s) if hello and heard.primitives.places else None


def _missing(heard: LaunchLog) -> str | None:
    """Why a repeat that ended well has no figures all the same."""
    if not heard.hellos:
        return "no rank has said anything"
    for rank in sorted(heard.hellos):
        if rank not in heard.done:
            return f"rank {rank} never said that it was done"
        if heard.primitives.places:
            continue
        if rank not in heard.trained and rank not in heard.blocks.told:
            return f"rank {rank} never told of a step"
        span = heard.span(rank)
        if span is None:
            return "no step was measured: all of them were warm-up steps"
        if span.end_ns <= span.begin_ns:
            return f"rank {rank} told of steps that took no time"
    return None


def _result(heard: LaunchLog, launched: Launched) -> RepeatResult:
    """The figures of a repeat that ended well."""
    measured = {rank: [step for step in heard.steps.get(rank, ()) if not step.warmup] for rank in sorted(heard.hellos)}
    spans = {rank: span for rank in measured if (span := heard.span(rank))}
    train_time_s = max(span.end_ns - span.begin_ns for span in spans.values()) / S
    evaluated = sum(words.evaluated for words in heard.done.values())
    instrumented = all(measured.values())
    whole = heard.blocks.stride == 1
    compared = instrumented and (heard.apart is None or heard.apart.most(measured) < inf)
    joints = _align(measured, heard.pauses, heard.apart, whole) if compared else align_steps({})
    judgement = analyze_aligned(joints)
    steps = max(span.steps for span in spans.values())
    first = heard.hellos[min(heard.hellos)]
    result = RepeatResult(
        backend=first.backend,
        backend_why=first.backend_why,
        train_time_s=train_time_s,
        startup_s=(max(span.first_ns for span in spans.values()) - (heard.begun_ns or launched.at_ns)) / S,
        steps=steps,
        samples_per_s=sum(span.samples for span in spans.values()) / train_time_s,
        step_ms=step_ms([step_length_ms(step) for own in measured.values() for step in own]) if instrumented else None,
        phases_ms=phases_ms(measured.values()) if instrumented else None,
        **wait_figures(judgement),
        mismatches=[f"step {number}: {words}" for number, words in joints.mismatches.items()],
        loss=loss_of_steps(measured.values()) if instrumented else Loss(first=None, last=last_loss(spans.values())),
        accuracy=sum(words.correct for words in heard.done.values()) / evaluated if evaluated else None,
        in_sync=in_sync([heard.done[rank] for rank in sorted(heard.done)]),
        sync_checks=heard.all_checks(),
        averaging=averaging(heard.done.values()),
        reshuffled=reshuffled(heard.done.values()),
        injected=[found for rank, told in sorted(heard.blocks.told.items()) for found in injected_delays(rank, told)],
        changes=[change_of_delays(heard, place) for place in range(len(heard.injections))],
        refused=heard.refused,
        warnings=[
            *cautions.of_repeat(steps, _loads_during_training(heard.loads, list(spans.values()))),
            *cautions.of_clocks(judgement, known=compared or not instrumented),
        ],
        ranks=[rank_result(heard, rank, judgement) for rank in measured],
    )
    return result if whole else extrapolate(result, count_steps(measured), judgement)


def _align(measured: StepsByRank, pauses: Sequence[Pause], far: ClockSpread | None, whole: bool) -> AlignedSteps:
    steps, wrong = drop_inconsistent(measured)
    joints = align_steps(steps, pauses, far) if whole else align_steps(*close_gaps(steps, pauses), far)
    return AlignedSteps(joints.steps, dict(sorted((joints.mismatches | wrong).items())) if wrong else joints.mismatches)


def extrapolate(result: RepeatResult, kept: int, judgement: WaitAnalysis | None) -> RepeatResult:
    """What was summed over the steps that were kept, as if over all."""
    result = msgspec.structs.replace(result, looked_at=kept)
    if judgement is None:
        return result
    by = result.steps / kept
    culprit, guess, took_s = result.culprit, result.what_if_s, judgement.train_ns / S
    return msgspec.structs.replace(
        result,
        culprit=culprit and _scaled_culprit(culprit, by),
        what_if_s=guess and _scaled_what_if(guess, result.train_time_s / took_s),
        ranks=[_scaled_rank(rank, by) for rank in result.ranks],
    )


def _scaled_culprit(culprit: Culprit, by: float) -> Culprit:
    excess = culprit.excess_s
    return msgspec.structs.replace(
        culprit,
        wait_caused_s=culprit.wait_caused_s * by,
        excess_s=ConfidenceInterval(estimate=excess.estimate * by, low=excess.low * by, high=excess.high * by),
    )


def _scaled_what_if(guess: WhatIf, by: float) -> WhatIf:
    without = guess.without_culprit
    return WhatIf(
        without_culprit=None if without is None else without * by,
        without_skew=guess.without_skew * by,
    )


def _scaled_rank(rank: RankResult, by: float) -> RankResult:
    sums = ("wait_s", "transfer_s", "exposed_s", "wait_caused_s")
    counts = ("last_arrivals", "collectives", "bytes")
    told = {name: figure for name in (*sums, *counts) if (figure := getattr(rank, name)) is not None}
    return msgspec.structs.replace(
        rank,
        waited_for_s={whom: s * by for whom, s in rank.waited_for_s.items()},
        **{name: figure * by if name in sums else round(figure * by) for name, figure in told.items()},
    )


def step_length_ms(step: Step) -> float:
    return (step.end_ns - step.begin_ns) / MS


def step_ms(lengths: Sequence[float]) -> StepMs:
    deciles = quantiles(lengths, n=10, method="inclusive") if len(lengths) > 1 else [lengths[0]] * 9
    return StepMs(median=median(lengths), p10=deciles[0], p90=deciles[-1])


def phases_ms(ranks: Iterable[list[Step]]) -> PhasesMs:
    """Phase by phase: the median over a rank's steps, then the mean over ranks."""
    medians = [[median(step.phases_ns[phase] for step in own) / MS for phase in range(len(PHASES))] for own in ranks]
    return PhasesMs(**{name: fmean(own[phase] for own in medians) for phase, name in enumerate(PHASES)})


def wait_figures(judgement: WaitAnalysis | None) -> dict[str, Any]:
    """What the waiting comes to; nothing where there was no collective. Where clocks cannot tell who waited, what one
    rank's own clock tells."""
    if judgement is None:
        return {}
    joined = judgement.joints.steps
    ranks = sorted(joined[0].ranks)
    found = _clock_figures(judgement) | {"overlap": fmean(_overlap(judgement, rank) for rank in ranks)}
    if judgement.withheld:
        return found
    wait_ms = fmean(median(step.ranks[rank].wait_ns for step in joined) for rank in ranks) / MS
    transfer_ms = fmean(median(step.ranks[rank].transfer_ns for step in joined) for rank in ranks) / MS
    is_sure = found.get("wait_error_ms", 0.0) <= wait_ms
    return found | {
        **({"wait_ms": wait_ms, "transfer_ms": transfer_ms} if is_sure else {}),
        "wait_share": judgement.wait,
        "transfer_share": judgement.transfer,
        "verdict": judgement.verdict,
        "culprit": judgement.culprit,
        "what_if_s": _what_if(judgement),
    }


def _clock_figures(judgement: WaitAnalysis) -> dict[str, Any]:
    """How sure the waiting is; nothing where all ranks have one clock."""
    if judgement.uncertainty is None:
        return {}
    error_ms = clock_error.median_wait_error(judgement.joints.steps, judgement.uncertainty) / MS
    return {"clock_error_ms": judgement.uncertainty.clock_ns / MS, "wait_error_ms": error_ms}


def _what_if(judgement: WaitAnalysis) -> WhatIf | None:
    """None: what the ranks told cannot have happened, each waits for the other, or nobody did anything."""
    try:
        return what_if(judgement)
    except (AssertionError, ZeroDivisionError):
        return None


def _overlap(judgement: WaitAnalysis, rank: int) -> float:
    own = [step.ranks[rank] for step in judgement.joints.steps]
    under_way = sum(step.under_way_ns for step in own)
    return 1 - sum(step.exposed_ns for step in own) / under_way if under_way else 0.0


def loss_of_steps(ranks: Iterable[list[Step]]) -> Loss:
    parts = [(own[: _tenth(own)], own[-_tenth(own) :]) for own in ranks]
    return Loss(
        first=weighted_loss([step for first, _ in parts for step in first]),
        last=weighted_loss([step for _, last in parts for step in last]),
    )


def _tenth(steps: Sequence[Step]) -> int:
    return max(1, len(steps) // A_TENTH)


def weighted_loss(steps: Sequence[Step]) -> float | None:
    """Mean loss by sample: a rank with fewer samples in a batch counts for less. None if any of it is not finite."""
    told = [step for step in steps if step.samples]
    if not told or any(step.loss is None for step in told):
        return None
    return sum((step.loss or 0.0) * step.samples for step in told) / sum(step.samples for step in told)


def last_loss(spans: Iterable[Trained]) -> float | None:
    """Without instruments only the last step's is known, each rank's mean over its own samples."""
    losses = [span.loss for span in spans]
    told = [loss for loss in losses if loss is not None]
    try:
        return fmean(told) if told and len(told) == len(losses) else None
    except OverflowError:  # two that are nearly infinite
        return None


def _loads_during_training(loads: Iterable[Load], spans: Sequence[Trained]) -> list[Load]:
    """Those that were read while all ranks trained: a second before its reading, each begins."""
    begin, end = max(span.begin_ns for span in spans), min(span.end_ns for span in spans)
    return [load for load in loads if load.at_ns - S > begin and load.at_ns < end]


def injected_delays(rank: int, told: RankTotals) -> list[Injected]:
    """The delays of a rank after the warm-up, site by site; one at the start always counts."""
    return [Injected(rank=rank, at=at, fired=fired, s=ns / S) for at, (fired, ns) in told.slept.items()]


def change_of_delays(heard: LaunchLog, place: int) -> Change:
    """When delays that were put in by hand came into force: at the first step that any rank began after that."""
    injection = heard.injections[place]
    begins_ns = [told.begin_ns for told in heard.blocks.told.values()]
    begin_ns = min(begins_ns or [each.first_ns for each in heard.trained.values()])
    return Change(
        s=(injection.at_ns - begin_ns) / S,
        step=heard.after.get(place),
        bottleneck=[msgspec.to_builtins(each) for each in injection.bottleneck],
    )


def rank_result(heard: LaunchLog, rank: int, judgement: WaitAnalysis | None) -> RankResult:
    hello, done = heard.hellos[rank], heard.done[rank]
    return RankResult(
        rank=rank,
        host=hello.host,
        pid=hello.pid,
        device=hello.device,
        device_why=hello.device_why,
        peak_gpu_bytes=done.peak_gpu_bytes,
        **_collective_figures(judgement, rank),
        bottleneck_fired=done.bottleneck_fired,
        bottleneck_s=done.bottleneck_ns / S,
        start_s=heard.ready[rank].start_ns / S if rank in heard.ready else 0.0,
        sub_batch=done.sub_batch,
        dropped=done.dropped,
    )


def _collective_figures(judgement: WaitAnalysis | None, rank: int) -> dict[str, Any]:
    if judgement is None:
        return {}
    own = [step.ranks[rank] for step in judgement.joints.steps]
    return {
        **({} if judgement.withheld else _rank_wait_figures(judgement, rank, own)),
        "exposed_s": sum(step.exposed_ns for step in own) / S,
        "overlap": _overlap(judgement, rank),
        "collectives": sum(len(step.step.collectives) for step in own),
        "bytes": sum(each.bytes for step in own for each in step.step.collectives),
    }


def _rank_wait_figures(judgement: WaitAnalysis, rank: int, own: Sequence[RankStep]) -> dict[str, Any]:
    """For whom it waited; nothing where the clocks may be further apart than that."""
    waited_for: dict[int, float] = {}
    for step in own:
        for wait in step.waits:
            waited_for[wait.whom] = waited_for.get(wait.whom, 0.0) + (wait.end - wait.begin) / S
    waited_ns = sum(step.wait_ns for step in own)
    caused = {
        "wait_caused_s": judgement.caused[rank] / S,
        "last_arrivals": sum(last == rank for step in judgement.joints.steps for last in step.last.values()),
    }
    if judgement.uncertainty and sum(judgement.uncertainty.by_rank[rank]) > waited_ns:
        return caused
    return caused | {
        "waited_for_s": dict(sorted(waited_for.items())),
        "wait_s": waited_ns / S,
        "transfer_s": sum(step.transfer_ns for step in own) / S,
    }
