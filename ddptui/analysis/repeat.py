"""What one repeat of a trial shows: its messages in, its figures out. Pure: no I/O, no clock."""

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from types import MappingProxyType
from typing import Literal

import msgspec

from ddptui.analysis import cautions
from ddptui.analysis.clock_sync import ClockSpread
from ddptui.analysis.correctness import averaging, in_sync, reshuffled
from ddptui.analysis.figures import (
    change_of_delays,
    injected_delays,
    last_loss,
    loss_of_steps,
    phases_ms,
    rank_result,
    step_length_ms,
    step_ms,
    wait_figures,
)
from ddptui.analysis.launch_log import LaunchLog
from ddptui.analysis.operations import drop_inconsistent
from ddptui.analysis.primitives.results import PrimitivesResult
from ddptui.analysis.results import (
    Loss,
    RepeatResult,
)
from ddptui.analysis.thinning import StepsByRank, close_gaps, count_steps, extrapolate
from ddptui.analysis.verdict import analyze_aligned
from ddptui.analysis.waits import AlignedSteps, align_steps
from ddptui.text.units import S
from ddptui.wire.messages import Pause, Trained
from ddptui.wire.records import Launched, Load, Message


class RepeatOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """How one repeat of a trial ended; `result` if it ended well; `primitives`, what there is of them in any case."""

    trial: str
    repeat: int
    command: tuple[str, ...]
    status: Literal["ok", "failed", "interrupted", "skipped"]
    error: str | None = None
    result: RepeatResult | None = None
    primitives: PrimitivesResult | None = None


Outcomes = Mapping[tuple[str, int], RepeatOutcome]  # by trial and repeat
NO_OUTCOMES: Outcomes = MappingProxyType({})


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
        if rank not in heard.trained and rank not in heard.thinned.totals:
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
    whole = heard.thinned.stride == 1
    compared = instrumented and (heard.clock_spread is None or heard.clock_spread.largest_ns(measured) < inf)
    joints = _align(measured, heard.pauses, heard.clock_spread, whole) if compared else align_steps({})
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
        injected=[
            found for rank, told in sorted(heard.thinned.totals.items()) for found in injected_delays(rank, told)
        ],
        changes=[change_of_delays(heard, place) for place in range(len(heard.injections))],
        refused=heard.refused,
        warnings=[
            *cautions.of_repeat(steps, _loads_during_training(heard.loads, list(spans.values()))),
            *cautions.of_clocks(judgement, known=compared or not instrumented),
        ],
        ranks=[rank_result(heard, rank, judgement) for rank in measured],
    )
    return result if whole else extrapolate(result, count_steps(measured), judgement.train_ns if judgement else None)


def _align(measured: StepsByRank, pauses: Sequence[Pause], far: ClockSpread | None, whole: bool) -> AlignedSteps:
    steps, wrong = drop_inconsistent(measured)
    joints = align_steps(steps, pauses, far) if whole else align_steps(*close_gaps(steps, pauses), far)
    return AlignedSteps(joints.steps, dict(sorted((joints.mismatches | wrong).items())) if wrong else joints.mismatches)


def _loads_during_training(loads: Iterable[Load], spans: Sequence[Trained]) -> list[Load]:
    """Those that were read while all ranks trained: a second before its reading, each begins."""
    begin, end = max(span.begin_ns for span in spans), min(span.end_ns for span in spans)
    return [load for load in loads if load.at_ns - S > begin and load.at_ns < end]
