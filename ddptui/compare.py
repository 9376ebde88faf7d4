"""From messages to results: what one repeat shows, and how the trials compare. Pure: no I/O, no clock."""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from statistics import fmean, median, quantiles
from typing import Any, Literal

import msgspec

from ddptui import lights
from ddptui.preset import Preset, Trial
from ddptui.results import (
    Averaging,
    Check,
    InSync,
    Loss,
    PhasesMs,
    RankResult,
    Ratio,
    RepeatResult,
    Results,
    Spread,
    StepMs,
    Summary,
    TrialResult,
)
from ddptui.wire import PHASES, Audit, Done, Ended, Fingerprint, Hello, Launched, Message, Step

MS = 1e6  # ns
S = 1e9  # ns
A_TENTH = 10


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How one repeat of a trial ended; `result` if it ended well."""

    trial: str
    repeat: int
    command: tuple[str, ...]
    status: Literal["ok", "failed", "interrupted"]
    error: str | None = None
    result: RepeatResult | None = None


def outcome(messages: Iterable[Message]) -> Outcome | None:
    """Read one repeat's messages. None if it was never launched."""
    launched: Launched | None = None
    ended: Ended | None = None
    hellos: dict[int, Hello] = {}
    steps: dict[int, list[Step]] = {}
    done: dict[int, Done] = {}
    prints: dict[int, dict[int, Fingerprint]] = {}  # by step and rank
    for message in messages:
        match message:
            case Step():
                steps.setdefault(message.rank, []).append(message)
            case Fingerprint():
                prints.setdefault(message.step, {})[message.rank] = message
            case Hello():
                hellos[message.rank] = message
            case Done():
                done[message.rank] = message
            case Launched():
                launched = message
            case Ended():
                ended = message
    if launched is None:
        return None
    status = ended.status if ended else "interrupted"
    error = ended.error if ended else None
    result = None
    if status == "ok":
        result = _repeat(launched, hellos, steps, done, prints)
        if result is None:
            status, error = "failed", "no step was measured: all of them were warm-up steps"
    return Outcome(
        trial=launched.trial,
        repeat=launched.repeat,
        command=launched.command,
        status=status,
        error=error,
        result=result,
    )


def compare(
    preset: Preset, run: str, environment: dict[str, Any], outcomes: Mapping[tuple[str, int], Outcome]
) -> Results:
    """All trials of a preset, side by side. Outcomes may be missing: the run goes on, or was interrupted."""
    of_trial = {
        trial.name: [found for number in range(1, preset.repeats + 1) if (found := outcomes.get((trial.name, number)))]
        for trial in preset.trials
    }
    baseline = {found.repeat: found.result for found in of_trial[preset.baseline] if found.result}
    trials = [_trial(trial, of_trial[trial.name], baseline) for trial in preset.trials]
    statuses = {trial.status for trial in trials}
    complete = all(_failed(found) or len(found) == preset.repeats for found in of_trial.values())
    interrupted = not complete or any(found.status == "interrupted" for found in outcomes.values())
    return Results(
        run=run,
        preset=preset.name,
        baseline=preset.baseline,
        environment=environment,
        status="interrupted" if interrupted else "failed" if "failed" in statuses else "ok",
        trials=trials,
    )


def _trial(trial: Trial, outcomes: Sequence[Outcome], baseline: Mapping[int, RepeatResult]) -> TrialResult:
    repeats = {found.repeat: found.result for found in outcomes if found.result}
    failed = _failed(outcomes)
    judged = [_judged(repeat, trial) for repeat in repeats.values()]
    return TrialResult(
        name=trial.name,
        status="failed" if failed else "ok" if repeats else "skipped",
        error=failed.error if failed else None,
        config=msgspec.to_builtins(trial),
        command=list(outcomes[0].command) if outcomes else [],
        repeats=judged,
        summary=_summary(repeats, baseline) if repeats else None,
    )


def _judged(repeat: RepeatResult, trial: Trial) -> RepeatResult:
    """With a verdict on the strategy's work, which depends on what the trial may expect of it."""
    if repeat.averaging is None:
        return repeat
    return msgspec.structs.replace(repeat, averaging=lights.judged(repeat.averaging, trial))


def _failed(outcomes: Iterable[Outcome]) -> Outcome | None:
    return next((found for found in outcomes if found.status == "failed"), None)


def _summary(repeats: Mapping[int, RepeatResult], baseline: Mapping[int, RepeatResult]) -> Summary:
    times = [repeat.train_time_s for repeat in repeats.values()]
    rate = median(repeat.samples_per_s for repeat in repeats.values())
    pairs = [(repeat, baseline[number]) for number, repeat in repeats.items() if number in baseline]
    ratios = [repeat.train_time_s / base.train_time_s for repeat, base in pairs]
    base_rate = median(repeat.samples_per_s for repeat in baseline.values()) if baseline else None
    return Summary(
        train_time_s=Spread(median=median(times), min=min(times), max=max(times)),
        samples_per_s=rate,
        speedup=rate / base_rate if base_rate else None,
        ratio=Ratio(median=median(ratios), low=min(ratios), high=max(ratios)) if ratios else None,
    )


def _repeat(
    launched: Launched,
    hellos: Mapping[int, Hello],
    steps: Mapping[int, list[Step]],
    done: Mapping[int, Done],
    prints: Mapping[int, Mapping[int, Fingerprint]],
) -> RepeatResult | None:
    """The figures of a repeat that ended well. None when nothing is left after the warm-up."""
    measured = {rank: [step for step in steps.get(rank, ()) if not step.warmup] for rank in sorted(hellos)}
    if not all(measured.values()):
        return None
    train_time_s = max(own[-1].end_ns - own[0].begin_ns for own in measured.values()) / S
    evaluated = sum(words.evaluated for words in done.values())
    return RepeatResult(
        train_time_s=train_time_s,
        startup_s=(max(steps[rank][0].begin_ns for rank in measured) - launched.at_ns) / S,
        steps=max(len(own) for own in measured.values()),
        samples_per_s=sum(step.samples for own in measured.values() for step in own) / train_time_s,
        step_ms=_step_ms([(step.end_ns - step.begin_ns) / MS for own in measured.values() for step in own]),
        phases_ms=_phases_ms(measured.values()),
        loss=_loss(measured.values()),
        accuracy=sum(words.correct for words in done.values()) / evaluated if evaluated else None,
        in_sync=in_sync([done[rank] for rank in sorted(done)]),
        sync_checks=sync_checks(prints, len(hellos)),
        averaging=averaging(done.values()),
        reshuffled=reshuffled(done.values()),
        ranks=[_rank(hellos[rank], done[rank]) for rank in measured],
    )


def _step_ms(lengths: Sequence[float]) -> StepMs:
    deciles = quantiles(lengths, n=10, method="inclusive") if len(lengths) > 1 else [lengths[0]] * 9
    return StepMs(median=median(lengths), p10=deciles[0], p90=deciles[-1])


def _phases_ms(ranks: Iterable[list[Step]]) -> PhasesMs:
    """Phase by phase: the median over a rank's steps, then the mean over ranks."""
    medians = [[median(step.phases_ns[phase] for step in own) / MS for phase in range(len(PHASES))] for own in ranks]
    return PhasesMs(**{name: fmean(own[phase] for own in medians) for phase, name in enumerate(PHASES)})


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


def in_sync(done: Sequence[Done]) -> InSync:
    """Compare the hashes of all copies of the model at the end."""
    copies = [words for words in done if words.parameters]
    if len(copies) < 2:
        return InSync(parameters=None, buffers=None, differing=[])
    parameters, buffers = _differing(copies)
    return InSync(parameters=not parameters, buffers=not buffers, differing=parameters + buffers)


def sync_checks(prints: Mapping[int, Mapping[int, Fingerprint]], ranks: int) -> list[Check]:
    """The same at the steps for which it was asked, and of which every rank has told."""
    told = {step: list(prints[step].values()) for step in sorted(prints) if len(prints[step]) == ranks}
    found = {step: _differing(copies) for step, copies in told.items()}
    return [
        Check(step=step, parameters=not parameters, buffers=not buffers, differing=parameters + buffers)
        for step, (parameters, buffers) in found.items()
    ]


def _differing(copies: Sequence[Done | Fingerprint]) -> tuple[list[str], list[str]]:
    """The names of the parameters, and of the buffers, that are not the same in all copies."""
    return (
        unequal([copy.parameters for copy in copies]),
        unequal([copy.buffers for copy in copies]),
    )


def unequal(copies: Sequence[Mapping[str, str]]) -> list[str]:
    """The names under which the copies hold different hashes."""
    names = dict.fromkeys(name for copy in copies for name in copy)
    return [name for name in names if len({copy.get(name) for copy in copies}) > 1]


def averaging(done: Iterable[Done]) -> Averaging | None:
    """The audits of all ranks as one. Only what is true of every rank is true: each error is the largest there is."""
    audits = [words.audit for words in done if words.audit]
    if not audits:
        return None

    def worst_by(error: str) -> Audit:
        return max(audits, key=lambda audit: math.inf if getattr(audit, error) is None else getattr(audit, error))

    farthest, multiple, own = worst_by("worst_error"), worst_by("scaled_error"), worst_by("own_error")
    return Averaging(
        of=farthest.of,
        error=worst_by("error").error,
        worst=farthest.worst,
        worst_error=farthest.worst_error,
        scale=multiple.scale,
        scaled_error=multiple.scaled_error,
        own_scale=own.own_scale,
        own_error=own.own_error,
    )


def reshuffled(done: Iterable[Done]) -> bool | None:
    """Whether no epoch had the order of the one before it, on any rank. None if there was one epoch."""
    orders = [words.orders for words in done if len(words.orders) > 1]
    return all(a != b for order in orders for a, b in pairwise(order)) if orders else None


def _rank(hello: Hello, done: Done) -> RankResult:
    return RankResult(
        rank=hello.rank,
        host=hello.host,
        pid=hello.pid,
        device=hello.device,
        bottleneck_fired=done.bottleneck_fired,
        bottleneck_s=done.bottleneck_ns / S,
        sub_batch=done.sub_batch,
        dropped=done.dropped,
    )
