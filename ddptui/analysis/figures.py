"""The figures of a repeat that ended well, from its steps and waits. Pure."""

from collections.abc import Iterable, Sequence
from statistics import fmean, median, quantiles
from typing import Any

import msgspec

from ddptui.analysis import clock_error
from ddptui.analysis.launch_log import LaunchLog
from ddptui.analysis.results import (
    Change,
    Injected,
    Loss,
    PhasesMs,
    RankResult,
    StepMs,
    WhatIf,
)
from ddptui.analysis.thinning import RankTotals
from ddptui.analysis.verdict import WaitAnalysis
from ddptui.analysis.waits import RankStep
from ddptui.analysis.what_if import what_if
from ddptui.text.units import MS, S
from ddptui.wire.messages import PHASES, Step, Trained

A_TENTH = 10


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
    joined = judgement.aligned.steps
    ranks = sorted(joined[0].ranks)
    found = _clock_figures(judgement) | {"overlap": fmean(_overlap(judgement, rank) for rank in ranks)}
    if judgement.withheld:
        return found
    wait_ms = fmean(median(step.ranks[rank].wait_ns for step in joined) for rank in ranks) / MS
    transfer_ms = fmean(median(step.ranks[rank].transfer_ns for step in joined) for rank in ranks) / MS
    is_sure = found.get("wait_error_ms", 0.0) <= wait_ms
    return found | {
        **({"wait_ms": wait_ms, "transfer_ms": transfer_ms} if is_sure else {}),
        "wait_share": judgement.wait_share,
        "transfer_share": judgement.transfer_share,
        "verdict": judgement.verdict,
        "culprit": judgement.culprit,
        "what_if_s": _what_if(judgement),
    }


def _clock_figures(judgement: WaitAnalysis) -> dict[str, Any]:
    """How sure the waiting is; nothing where all ranks have one clock."""
    if judgement.uncertainty is None:
        return {}
    error_ms = clock_error.median_wait_error(judgement.aligned.steps, judgement.uncertainty) / MS
    return {"clock_error_ms": judgement.uncertainty.clock_ns / MS, "wait_error_ms": error_ms}


def _what_if(judgement: WaitAnalysis) -> WhatIf | None:
    """None: what the ranks told cannot have happened, each waits for the other, or nobody did anything."""
    try:
        return what_if(judgement)
    except (AssertionError, ZeroDivisionError):
        return None


def _overlap(judgement: WaitAnalysis, rank: int) -> float:
    own = [step.ranks[rank] for step in judgement.aligned.steps]
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


def injected_delays(rank: int, told: RankTotals) -> list[Injected]:
    """The delays of a rank after the warm-up, site by site; one at the start always counts."""
    return [Injected(rank=rank, at=at, fired=fired, s=ns / S) for at, (fired, ns) in told.slept.items()]


def change_of_delays(heard: LaunchLog, place: int) -> Change:
    """When delays that were put in by hand came into force: at the first step that any rank began after that."""
    injection = heard.injections[place]
    begins_ns = [told.begin_ns for told in heard.thinned.totals.values()]
    begin_ns = min(begins_ns or [each.first_ns for each in heard.trained.values()])
    return Change(
        s=(injection.at_ns - begin_ns) / S,
        step=heard.first_step_after.get(place),
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
    own = [step.ranks[rank] for step in judgement.aligned.steps]
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
            waited_for[wait.late_rank] = waited_for.get(wait.late_rank, 0.0) + (wait.end - wait.begin) / S
    waited_ns = sum(step.wait_ns for step in own)
    caused = {
        "wait_caused_s": judgement.caused_ns[rank] / S,
        "last_arrivals": sum(last == rank for step in judgement.aligned.steps for last in step.last_arrivals.values()),
    }
    if judgement.uncertainty and sum(judgement.uncertainty.by_rank[rank]) > waited_ns:
        return caused
    return caused | {
        "waited_for_s": dict(sorted(waited_for.items())),
        "wait_s": waited_ns / S,
        "transfer_s": sum(step.transfer_ns for step in own) / S,
    }
