"""What one repeat of a trial shows: its messages in, its figures out. Pure: no I/O, no clock."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import fmean, median, quantiles
from typing import Any, Literal

import msgspec

from ddptui import cautions
from ddptui.agreement import averaging, in_sync, reshuffled, sync_checks
from ddptui.results import Change, Injected, Loss, PhasesMs, RankResult, RepeatResult, StepMs
from ddptui.verdict import Judgement, judge_joints, what_if
from ddptui.waits import join
from ddptui.wire import (
    PHASES,
    Done,
    Ended,
    Fingerprint,
    Hello,
    Injection,
    Launched,
    Load,
    Message,
    Pause,
    Ready,
    Slept,
    Step,
    Trained,
)

MS = 1e6  # ns
S = 1e9  # ns
A_TENTH = 10


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How one repeat of a trial ended; `result` if it ended well."""

    trial: str
    repeat: int
    command: tuple[str, ...]
    status: Literal["ok", "failed", "interrupted", "skipped"]
    error: str | None = None
    result: RepeatResult | None = None


class Heard(msgspec.Struct):
    """The messages of one repeat, sorted; by rank, in the order received."""

    launched: Launched | None = None
    ended: Ended | None = None
    hellos: dict[int, Hello] = {}
    ready: dict[int, Ready] = {}
    steps: dict[int, list[Step]] = {}
    trained: dict[int, Trained] = {}
    done: dict[int, Done] = {}
    prints: dict[int, dict[int, Fingerprint]] = {}  # by step and rank
    pauses: list[Pause] = []
    loads: list[Load] = []
    injections: list[Injection] = []

    def hear(self, message: Message) -> None:
        match message:
            case Step():
                self.steps.setdefault(message.rank, []).append(message)
            case Fingerprint():
                self.prints.setdefault(message.step, {})[message.rank] = message
            case Pause():
                self.pauses.append(message)
            case Load():
                self.loads.append(message)
            case Injection():
                self.injections.append(message)
            case Hello():
                self.hellos[message.rank] = message
            case Ready():
                self.ready[message.rank] = message
            case Trained():
                self.trained[message.rank] = message
            case Done():
                self.done[message.rank] = message
            case Launched():
                self.launched = message
            case Ended():
                self.ended = message


def launches(messages: Iterable[Message]) -> Iterator[Heard]:
    """What was heard of each launch, once it has ended."""
    heard = Heard()
    for message in messages:
        heard.hear(message)
        if isinstance(message, Ended):
            yield heard
            heard = Heard()


def window(steps: Mapping[int, Sequence[Step]], numbers: range) -> dict[int, list[Step]]:
    """Of all ranks' steps, those with these numbers."""
    return {rank: [step for step in own if step.step in numbers] for rank, own in steps.items()}


def slept_s(steps: Mapping[int, Sequence[Step]]) -> float:
    """The delays that were put into these steps, on all ranks together."""
    return sum(each.end_ns - each.begin_ns for own in steps.values() for step in own for each in step.slept) / S


def outcome(messages: Iterable[Message]) -> Outcome | None:
    """Read one repeat's messages. None if it was never launched."""
    heard = Heard()
    for message in messages:
        heard.hear(message)
    if heard.launched is None:
        return None
    status = heard.ended.status if heard.ended else "interrupted"
    error = heard.ended.error if heard.ended else None
    result = None
    if status == "ok":
        error = _lacking(heard)
        result = None if error else _result(heard, heard.launched)
        if error:
            status = "failed"
    return Outcome(
        trial=heard.launched.trial,
        repeat=heard.launched.repeat,
        command=heard.launched.command,
        status=status,
        error=error,
        result=result,
    )


def _lacking(heard: Heard) -> str | None:
    """Why a repeat that ended well has no figures all the same."""
    if not heard.hellos:
        return "no rank has said anything"
    for rank in sorted(heard.hellos):
        if rank not in heard.done:
            return f"rank {rank} never said that it was done"
        if rank in heard.trained:
            continue
        if rank not in heard.steps:
            return f"rank {rank} never told of a step"
        measured = [step for step in heard.steps[rank] if not step.warmup]
        if not measured:
            return "no step was measured: all of them were warm-up steps"
        if measured[-1].end_ns <= measured[0].begin_ns:
            return f"rank {rank} told of steps that took no time"
    return None


def _result(heard: Heard, launched: Launched) -> RepeatResult:
    """The figures of a repeat that ended well."""
    measured = {rank: [step for step in heard.steps.get(rank, ()) if not step.warmup] for rank in sorted(heard.hellos)}
    spans = {rank: heard.trained.get(rank) or _span(rank, heard.steps[rank], own) for rank, own in measured.items()}
    train_time_s = max(span.end_ns - span.begin_ns for span in spans.values()) / S
    evaluated = sum(words.evaluated for words in heard.done.values())
    instrumented = all(measured.values())
    joints = join(measured if instrumented else {}, heard.pauses)
    judgement = judge_joints(joints)
    steps = max(span.steps for span in spans.values())
    return RepeatResult(
        train_time_s=train_time_s,
        startup_s=(max(span.first_ns for span in spans.values()) - launched.at_ns) / S,
        steps=steps,
        samples_per_s=sum(span.samples for span in spans.values()) / train_time_s,
        step_ms=_step_ms([_length_ms(step) for own in measured.values() for step in own]) if instrumented else None,
        phases_ms=_phases_ms(measured.values()) if instrumented else None,
        **_of_collectives(judgement),
        mismatches=[f"step {number}: {words}" for number, words in joints.mismatches.items()],
        loss=_loss(measured.values()) if instrumented else Loss(first=None, last=_last_loss(spans.values())),
        accuracy=sum(words.correct for words in heard.done.values()) / evaluated if evaluated else None,
        in_sync=in_sync([heard.done[rank] for rank in sorted(heard.done)]),
        sync_checks=sync_checks(heard.prints, len(heard.hellos)),
        averaging=averaging(heard.done.values()),
        reshuffled=reshuffled(heard.done.values()),
        injected=[found for rank in sorted(heard.steps) for found in _injected(rank, heard.steps[rank])],
        changes=[_change(heard, injection) for injection in heard.injections],
        warnings=cautions.of_repeat(steps, _meanwhile(heard.loads, list(spans.values()))),
        ranks=[_rank(heard, rank, judgement) for rank in measured],
    )


def _span(rank: int, steps: Sequence[Step], measured: Sequence[Step]) -> Trained:
    """What the rank would have said of these steps without instruments."""
    return Trained(
        rank=rank,
        first_ns=steps[0].begin_ns,
        begin_ns=measured[0].begin_ns,
        end_ns=measured[-1].end_ns,
        steps=len(measured),
        samples=sum(step.samples for step in measured),
        loss=measured[-1].loss,
    )


def _length_ms(step: Step) -> float:
    return (step.end_ns - step.begin_ns) / MS


def _step_ms(lengths: Sequence[float]) -> StepMs:
    deciles = quantiles(lengths, n=10, method="inclusive") if len(lengths) > 1 else [lengths[0]] * 9
    return StepMs(median=median(lengths), p10=deciles[0], p90=deciles[-1])


def _phases_ms(ranks: Iterable[list[Step]]) -> PhasesMs:
    """Phase by phase: the median over a rank's steps, then the mean over ranks."""
    medians = [[median(step.phases_ns[phase] for step in own) / MS for phase in range(len(PHASES))] for own in ranks]
    return PhasesMs(**{name: fmean(own[phase] for own in medians) for phase, name in enumerate(PHASES)})


def _of_collectives(judgement: Judgement | None) -> dict[str, Any]:
    """What the waiting comes to; nothing where there was no collective."""
    if judgement is None:
        return {}
    joined = judgement.joints.steps
    ranks = sorted(joined[0].ranks)
    return {
        "wait_ms": fmean(median(step.ranks[rank].wait_ns for step in joined) for rank in ranks) / MS,
        "transfer_ms": fmean(median(step.ranks[rank].transfer_ns for step in joined) for rank in ranks) / MS,
        "overlap": fmean(_overlap(judgement, rank) for rank in ranks),
        "wait_share": judgement.wait,
        "transfer_share": judgement.transfer,
        "verdict": judgement.verdict,
        "culprit": judgement.culprit,
        "what_if_s": what_if(judgement),
    }


def _overlap(judgement: Judgement, rank: int) -> float:
    own = [step.ranks[rank] for step in judgement.joints.steps]
    under_way = sum(step.under_way_ns for step in own)
    return 1 - sum(step.exposed_ns for step in own) / under_way if under_way else 0.0


def _loss(ranks: Iterable[list[Step]]) -> Loss:
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


def _last_loss(spans: Iterable[Trained]) -> float | None:
    """Without instruments only the last step's is known, each rank's mean over its own samples."""
    losses = [span.loss for span in spans]
    told = [loss for loss in losses if loss is not None]
    return fmean(told) if told and len(told) == len(losses) else None


def _meanwhile(loads: Iterable[Load], spans: Sequence[Trained]) -> list[Load]:
    """Those that were read while all ranks trained: a second before its reading, each begins."""
    begin, end = max(span.begin_ns for span in spans), min(span.end_ns for span in spans)
    return [load for load in loads if load.at_ns - S > begin and load.at_ns < end]


def _injected(rank: int, steps: Sequence[Step]) -> list[Injected]:
    """The delays of a rank after the warm-up, site by site; one at the start always counts."""
    by_site: dict[str, list[Slept]] = {}
    for step in steps:
        for slept in step.slept:
            if not step.warmup or slept.at == "start":
                by_site.setdefault(slept.at, []).append(slept)
    return [
        Injected(rank=rank, at=at, fired=len(taken), s=sum(each.end_ns - each.begin_ns for each in taken) / S)
        for at, taken in by_site.items()
    ]


def _change(heard: Heard, injection: Injection) -> Change:
    """When delays that were put in by hand came into force: at the first step that any rank began after that."""
    steps = [step for own in heard.steps.values() for step in own]
    later = [step for step in steps if step.begin_ns >= injection.at_ns]
    begin_ns = min(step.begin_ns for step in steps) if steps else min(each.first_ns for each in heard.trained.values())
    return Change(
        s=(injection.at_ns - begin_ns) / S,
        step=min((step.step for step in later), default=None),
        bottleneck=[msgspec.to_builtins(each) for each in injection.bottleneck],
    )


def _rank(heard: Heard, rank: int, judgement: Judgement | None) -> RankResult:
    hello, done = heard.hellos[rank], heard.done[rank]
    return RankResult(
        rank=rank,
        host=hello.host,
        pid=hello.pid,
        device=hello.device,
        **_of_its_collectives(judgement, rank),
        bottleneck_fired=done.bottleneck_fired,
        bottleneck_s=done.bottleneck_ns / S,
        start_s=heard.ready[rank].start_ns / S if rank in heard.ready else 0.0,
        sub_batch=done.sub_batch,
        dropped=done.dropped,
    )


def _of_its_collectives(judgement: Judgement | None, rank: int) -> dict[str, Any]:
    if judgement is None:
        return {}
    own = [step.ranks[rank] for step in judgement.joints.steps]
    waited_for: dict[int, float] = {}
    for step in own:
        for wait in step.waits:
            waited_for[wait.whom] = waited_for.get(wait.whom, 0.0) + (wait.end - wait.begin) / S
    return {
        "waited_for_s": dict(sorted(waited_for.items())),
        "wait_s": sum(step.wait_ns for step in own) / S,
        "transfer_s": sum(step.transfer_ns for step in own) / S,
        "exposed_s": sum(step.exposed_ns for step in own) / S,
        "overlap": _overlap(judgement, rank),
        "wait_caused_s": judgement.caused[rank] / S,
        "last_arrivals": sum(last == rank for step in judgement.joints.steps for last in step.last.values()),
        "collectives": sum(len(step.step.collectives) for step in own),
        "bytes": sum(each.bytes for step in own for each in step.step.collectives),
    }
