"""Computes the outcome of one repeat of a trial from its messages. Pure."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Literal

import msgspec
from msgspec.structs import replace

from ddptui.analysis.breakdown import time_parts
from ddptui.analysis.correctness import averaging, in_sync, reshuffled
from ddptui.analysis.figures import (
    accuracy,
    epoch_time,
    injected_delays,
    last_loss,
    loss_of_steps,
    other_load,
    phases_ms,
    rank_result,
    step_ms,
    wait_figures,
)
from ddptui.analysis.finding import ABOUT_LATE_RANK
from ddptui.analysis.gpu_work import nccl_use, repeat_gpu_figures
from ddptui.analysis.launch_data import LaunchData
from ddptui.analysis.policy import Facts, cautions_for, is_host_time
from ddptui.analysis.primitive_results import PrimitivesResult
from ddptui.analysis.repeats import takes_cores
from ddptui.analysis.results import Loss, RepeatResult
from ddptui.analysis.thinning import extrapolate
from ddptui.analysis.waits import AlignedSteps
from ddptui.findings.checks import Checked
from ddptui.findings.trial import scaled
from ddptui.text.words import S
from ddptui.wire.records import Failure, Launched, Message


class RepeatOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """How one repeat of a trial ended. result: its figures, if it succeeded; primitives: what was measured, in any
    case."""

    trial: str
    repeat: int
    command: tuple[str, ...]
    status: Literal["ok", "failed", "interrupted", "skipped"]
    error: str | None = None
    failure: Failure | None = None  # the same error in parts, if its first cause is known
    result: RepeatResult | None = None
    primitives: PrimitivesResult | None = None


Outcomes = Mapping[tuple[str, int], RepeatOutcome]  # by trial and repeat
NO_OUTCOMES: Outcomes = MappingProxyType({})


def outcome_of_messages(messages: Iterable[Message]) -> RepeatOutcome | None:
    """The outcome of a repeat from its messages; None if it was never launched."""
    log = LaunchData()
    for message in messages:
        log.add(message)
    return outcome_of_log(log)


def outcome_of_log(log: LaunchData) -> RepeatOutcome | None:
    """The outcome of a repeat from its log; None if it was never launched."""
    if log.launched is None:
        return None
    status = log.ended.status if log.ended else "interrupted"
    error = log.ended.error if log.ended else None
    result = None
    took_s = None
    if log.launched.watched:  # figures of a watched training are useful even if it failed or goes on
        if status != "skipped" and not (missing := _why_no_steps(log)):
            result = _result(log, log.launched)
        elif status == "ok":
            status, error = "failed", missing
    elif log.ended and log.ended.status == "ok":  # the launcher succeeded; it does not see what ranks report
        error = _why_no_figures(log)
        if error:
            status = "failed"
        elif log.primitives.places:
            took_s = (log.ended.at_ns - log.launched.at_ns) / S
        else:
            result = _result(log, log.launched)
    hello = next(iter(log.hellos.values()), None)
    return RepeatOutcome(
        trial=log.launched.trial,
        repeat=log.launched.repeat,
        command=log.launched.command,
        status=status,
        error=error,
        failure=log.ended.failure if log.ended else None,
        result=result,
        primitives=log.primitives.result(hello, took_s, nccl_use(log)) if hello and log.primitives.places else None,
    )


def _why_no_figures(log: LaunchData) -> str | None:
    """Why a repeat has no figures although its launcher succeeded; None: it has figures."""
    for rank in sorted(log.hellos):
        if rank not in log.done:
            return f"rank {rank} never reported that it was done"
    return None if log.hellos and log.primitives.places else _why_no_steps(log)


def _why_no_steps(log: LaunchData) -> str | None:
    """Why some rank has no measured step; None: every rank has one."""
    if not log.hellos:
        return "no rank sent a message"
    for rank in sorted(log.hellos):
        if rank not in log.trained and rank not in log.thinned.totals:
            return f"rank {rank} never reported a step"
        span = log.span(rank)
        if span is None:
            return "no step was measured: all of them were warm-up steps"
        if span.end_ns <= span.begin_ns:
            return f"rank {rank} reported steps that took no time"
    return None


def _result(log: LaunchData, launched: Launched) -> RepeatResult:
    from ddptui.analysis.late import Window  # these modules import numpy, which only judgements need
    from ddptui.analysis.places import place_times
    from ddptui.findings.changes import change_of_delays, judged_stretch, stretches_of
    from ddptui.findings.time import all_findings
    from ddptui.findings.verdict import analyze_aligned

    measured = log.measured_steps
    spans = [span for rank in measured if (span := log.span(rank))]
    instrumented = all(measured.values())  # without instruments, ranks send no steps, only one Trained message
    aligned = log.align_measured() if instrumented and log.clocks_known else AlignedSteps([], {})
    other = other_load(log.loads, spans)
    disturbed = takes_cores(other)
    window = Window(aligned.steps, disturbed, log.restarts, launched.watched, aligned.lines, aligned.loaders)
    analysis = analyze_aligned(aligned, disturbed=disturbed, restarts=log.restarts, watched=launched.watched)
    found = list(analysis.findings) if analysis else all_findings(window, [])
    stretches = stretches_of(log, aligned, disturbed=disturbed) if log.injections else []
    judged = judged_stretch(stretches) if stretches else None
    if analysis and judged:
        analysis = analysis._replace(culprit=judged.culprit)  # so that the what-if uses it, too
        found = [*judged.findings, *(finding for finding in found if finding.kind not in ABOUT_LATE_RANK)]
    checked = Checked(log.of_checks, found)
    found = [*checked.findings, *checked.of_time]
    hello = log.hellos[min(log.hellos)]
    done = log.done.values()
    train_time_s = max(span.end_ns - span.begin_ns for span in spans) / S
    lengths = step_ms(measured.values()) if instrumented else None
    steps = max(span.steps for span in spans)
    batch_s = train_time_s / steps if steps else None
    epoch_s, is_estimate = epoch_time(log, batch_s)
    numbers = {step.step for of_rank in measured.values() for step in of_rank}
    kept = 0 if log.trained else len(numbers)  # 0: ranks without instruments report all their steps in one message
    evidence = Facts(
        host_time=instrumented and any(is_host_time(hello.device) for hello in log.hellos.values()),
        steps=kept or steps,
        other_load=other.cores if other else 0.0,
        idle=other.idle if other else 0.0,
        clocks_known=log.clocks_known or not instrumented,  # without steps, no times of two hosts need comparing
        waits_hidden=analysis is not None and analysis.withheld,
    )
    ranks = [rank_result(log, rank, aligned, analysis) for rank in measured]
    result = RepeatResult(
        backend=hello.backend,
        backend_why=hello.backend_why,
        train_time_s=train_time_s,
        # Time in a queue does not count as startup.
        startup_s=(max(span.first_ns for span in spans) - (log.begun_ns or launched.at_ns)) / S,
        start=launched.start,
        start_why=launched.start_why,
        steps=steps,
        samples_per_s=sum(span.samples for span in spans) / train_time_s or None,
        step_ms=lengths,
        phases_ms=phases_ms(measured.values()) if instrumented else None,
        batch_s=batch_s,
        epoch_s=epoch_s,
        epoch_is_estimate=is_estimate,
        time_parts=time_parts(measured, steps, lengths.median, train_time_s) if lengths else None,
        **wait_figures(analysis),
        findings=found,
        mismatches=[f"step {number}: {mismatch}" for number, mismatch in aligned.mismatches.items()],
        loss=loss_of_steps(measured.values()) if instrumented else Loss(first=None, last=last_loss(spans)),
        accuracy=accuracy(done),
        in_sync=in_sync([log.done[rank] for rank in sorted(log.done)]),
        sync_checks=sorted(log.checks, key=lambda check: check.step),
        averaging=averaging(done),
        checks=checked.lights,
        places=place_times(window.spots, len(window.steps)),
        reshuffled=reshuffled(done),
        injected=injected_delays(log),
        other_load=other,
        changes=[change_of_delays(log, index, stretch) for index, stretch in enumerate(stretches[1:])],
        refused=log.refused,
        warnings=cautions_for(evidence),
        **repeat_gpu_figures(log, ranks),
        ranks=ranks,
    )
    if 0 < kept < steps:  # a long launch keeps only some steps, and `watch --every N` reports only some
        result = extrapolate(result, kept, analysis.train_ns if analysis else None)
        result = replace(result, findings=[scaled(finding, steps / kept) for finding in found])
    # This culprit was judged on its own steps: it is scaled already, and may be known even if other waits are hidden.
    return replace(result, culprit=judged.culprit) if judged else result
