"""The figures of a repeat, from its steps, waits and reports. Pure."""

from collections.abc import Collection, Iterable, Sequence
from statistics import fmean, median, quantiles
from typing import Any

from ddptui.analysis.culprit import WaitAnalysis, median_wait_error
from ddptui.analysis.gpu_work import rank_gpu_figures
from ddptui.analysis.launch_data import LaunchData
from ddptui.analysis.results import Injected, Loss, OtherLoad, PhasesMs, RankResult, StepMs, WhatIf
from ddptui.analysis.waits import AlignedSteps, RankStep
from ddptui.text.words import MS, S
from ddptui.wire.messages import Done, Step, Trained
from ddptui.wire.phases import PARTS, PHASES
from ddptui.wire.records import Load

A_TENTH = 10  # the first and last loss are means over a tenth of the steps, since single losses are noisy


def step_ms(ranks: Iterable[Sequence[Step]]) -> StepMs:
    """Median and deciles of the times of all ranks' steps, at least one step."""
    # "inclusive": the steps are the whole population and not a sample, so no decile exceeds the longest step.
    lengths = [(step.end_ns - step.begin_ns) / MS for steps in ranks for step in steps]
    deciles = quantiles(lengths, n=10, method="inclusive") if len(lengths) > 1 else [lengths[0]] * 9
    return StepMs(median=median(lengths), p10=deciles[0], p90=deciles[-1])


def phases_ms(ranks: Iterable[Sequence[Step]]) -> PhasesMs:
    """For each phase, the median over a rank's steps, as a mean over ranks, in ms."""
    medians = [[median(step.phases_ns[at] for step in steps) / MS for at in range(len(PHASES))] for steps in ranks]
    return PhasesMs(**{name: fmean(of_rank[at] for of_rank in medians) for at, name in enumerate(PHASES)})


def epoch_time(log: LaunchData, batch_s: float | None) -> tuple[float | None, bool]:
    """The time of an epoch in s, and whether it is an estimate. batch_s: the mean time of a batch; None:
    unknown.

    The median over the complete epochs of the slowest rank; an estimate if not every step is reported. Without a
    complete epoch, the time of as many batches as one has. None: that number is not known."""
    batches = next((ready.batches for ready in log.ready.values() if ready.batches), None)
    epochs = [of_rank for totals in log.thinned.totals.values() if (of_rank := totals.epochs_ns(batches))]
    if epochs:
        return max(map(median, epochs)) / S, any(totals.factor > 1 for totals in log.thinned.totals.values())
    return (batches * batch_s, True) if batches and batch_s else (None, False)


def loss_of_steps(ranks: Iterable[Sequence[Step]]) -> Loss:
    """The mean loss over the first and the last tenth of all ranks' steps."""
    first: list[Step] = []
    last: list[Step] = []
    for steps in ranks:
        tenth = max(1, len(steps) // A_TENTH)
        first += steps[:tenth]
        last += steps[-tenth:]
    return Loss(first=weighted_loss(first), last=weighted_loss(last))


def weighted_loss(steps: Sequence[Step]) -> float | None:
    """The mean loss of these steps, weighted by samples (see `mean_by_sample`). None if a loss is not finite."""
    return mean_by_sample([(step.samples, step.loss) for step in steps])


def mean_by_sample(losses: Sequence[tuple[int, float | None]]) -> float | None:
    """The mean of losses, weighted by their numbers of samples, since ranks may have batches of different sizes. Equal
    weights if no samples are counted, as in a training without a loader. None if a loss with a weight is None."""
    # In `dp`, a replica may get no samples of a small batch.
    counted = [each for each in losses if each[0]] or [(1, loss) for _, loss in losses]
    if not counted or any(loss is None for _, loss in counted):
        return None
    return sum(samples * (loss or 0.0) for samples, loss in counted) / sum(samples for samples, _ in counted)


def last_loss(spans: Iterable[Trained]) -> float | None:
    """The mean of the ranks' last losses, which is all that is known without instruments. None if one is not finite."""
    losses = [span.loss for span in spans]
    finite = [loss for loss in losses if loss is not None]
    try:
        return fmean(finite) if finite and len(finite) == len(losses) else None
    except OverflowError:  # the sum of two losses near the largest float
        return None


def accuracy(done: Collection[Done]) -> float | None:
    """The accuracy over all evaluated samples, from 0 to 1. None: no samples were evaluated."""
    evaluated = sum(message.evaluated for message in done)
    return sum(message.correct for message in done) / evaluated if evaluated else None


def other_load(loads: Iterable[Load], spans: Sequence[Trained]) -> OtherLoad | None:
    """The mean load of other programs while all ranks trained. None without a reading."""
    begin_ns, end_ns = max(span.begin_ns for span in spans), min(span.end_ns for span in spans)
    readings = [(load, _within(load, begin_ns, end_ns)) for load in loads]
    during_s = sum(s for _, s in readings)
    if during_s <= 0:
        return None
    named = {"": 0.0}
    for load, s in readings:
        named[load.by] = named.get(load.by, 0.0) + (s if load.by else 0.0)
    return OtherLoad(
        cores=sum((load.busy - load.own) * s for load, s in readings) / during_s,
        idle=sum(load.idle * s for load, s in readings) / during_s,
        stolen=sum(load.stolen * s for load, s in readings) / during_s,
        by=max(named, key=lambda by: named[by]),
    )


def _within(load: Load, begin_ns: int, end_ns: int) -> float:
    """The seconds of a reading during which all ranks trained; 0.0 if less than half of it."""
    s = (min(load.at_ns, end_ns) - max(load.at_ns - load.s * S, begin_ns)) / S
    return s if s >= load.s / 2 else 0.0


def injected_delays(log: LaunchData) -> list[Injected]:
    """The delays injected after the warm-up, by rank and site. A delay at the start always counts."""
    return [
        Injected(rank=rank, at=at, fired=fired, s=ns / S)
        for rank, totals in sorted(log.thinned.totals.items())
        for at, (fired, ns) in totals.delays.items()
    ]


def wait_figures(analysis: WaitAnalysis | None) -> dict[str, Any]:
    """The fields of a RepeatResult about waiting; empty without collectives."""
    if analysis is None:
        return {}
    steps = analysis.aligned.steps
    ranks = sorted(steps[0].ranks)
    if analysis.host_time:
        return {}
    figures: dict[str, Any] = {"overlap": fmean(_overlap(_steps_of(analysis, rank)) for rank in ranks)}
    if analysis.uncertainty is not None:
        figures["clock_error_ms"] = analysis.uncertainty.clock_ns / MS
        figures["wait_error_ms"] = median_wait_error(steps, analysis.uncertainty) / MS
    if analysis.withheld:  # the clock error hides who waited: keep only figures that need a single clock
        return figures
    wait_ms = fmean(median(step.ranks[rank].wait_ns for step in steps) for rank in ranks) / MS
    transfer_ms = fmean(median(step.ranks[rank].transfer_ns for step in steps) for rank in ranks) / MS
    # A median may be less certain than the sum that `withheld` judges.
    is_sure = figures.get("wait_error_ms", 0.0) <= wait_ms
    return figures | {
        **({"wait_ms": wait_ms, "transfer_ms": transfer_ms} if is_sure else {}),
        "wait_share": analysis.wait_share,
        "transfer_share": analysis.transfer_share,
        "verdict": analysis.verdict,
        "culprit": analysis.culprit,
        "rank_without_core": analysis.rank_without_core,
        "what_if_s": _what_if(analysis),
    }


def _what_if(analysis: WaitAnalysis) -> WhatIf | None:
    """The estimate. None: the ranks wait for each other in a cycle, which no true record contains, or no time
    passed."""
    from ddptui.analysis.late import what_if  # imports numpy: not before the first analysis

    try:
        return what_if(analysis)  # if the estimate fails, keep the measured figures
    except (AssertionError, ZeroDivisionError):
        return None


def _steps_of(analysis: WaitAnalysis, rank: int) -> list[RankStep]:
    return [step.ranks[rank] for step in analysis.aligned.steps]


def _overlap(steps: Sequence[RankStep]) -> float:
    under_way_ns = sum(step.under_way_ns for step in steps)
    return 1 - sum(step.exposed_ns for step in steps) / under_way_ns if under_way_ns else 0.0


def rank_result(log: LaunchData, rank: int, aligned: AlignedSteps, analysis: WaitAnalysis | None) -> RankResult:
    """Returns all figures of one rank."""
    hello, done, totals = log.hellos[rank], _done(log, rank), log.thinned.totals.get(rank)
    return RankResult(
        rank=rank,
        host=hello.host,
        pid=hello.pid,
        device=hello.device,
        device_why=hello.device_why,
        peak_gpu_bytes=done.peak_gpu_bytes,
        peak_gpu_reserved_bytes=done.peak_gpu_reserved_bytes,
        **rank_gpu_figures(log, rank),
        **_collective_figures(analysis, rank),
        work_s=_own_work(aligned, rank),
        bottleneck_fired=done.bottleneck_fired,
        bottleneck_s=done.bottleneck_ns / S,
        queued_s=totals.queued_ns * totals.factor / S if totals else 0.0,
        start_s=log.ready[rank].start_ns / S if rank in log.ready else 0.0,
        sub_batch=done.sub_batch,
        dropped=done.dropped,
    )


def _done(log: LaunchData, rank: int) -> Done:
    """The rank's final report; for a rank of a watched training that was killed, a report computed from its steps."""
    if rank in log.done:
        return log.done[rank]
    totals = log.thinned.totals[rank]
    fired, lengths_ns = zip(*totals.delays.values(), strict=True) if totals.slept else ((), ())
    return Done(
        rank=rank,
        at_ns=totals.first.end_ns,
        correct=0,
        evaluated=0,
        parameters={},
        buffers={},
        bottleneck_fired=sum(fired),
        bottleneck_ns=round(sum(lengths_ns)),
    )


def _own_work(aligned: AlignedSteps, rank: int) -> dict[str, float]:
    """A rank's own work in the steps that could be compared, by part, in s."""
    parts_ns = zip(*(step.ranks[rank].work_ns for step in aligned.steps), strict=True)
    return {name: sum(of_steps) / S for name, of_steps in zip(PARTS, parts_ns, strict=False)}


def _collective_figures(analysis: WaitAnalysis | None, rank: int) -> dict[str, Any]:
    if analysis is None:
        return {}
    steps = _steps_of(analysis, rank)
    return {
        **({} if analysis.withheld else _rank_wait_figures(analysis, rank, steps)),
        "exposed_s": sum(step.exposed_ns for step in steps) / S,
        "overlap": None if analysis.host_time else _overlap(steps),
        "collectives": sum(len(step.step.collectives) for step in steps),
        "bytes": sum(collective.bytes for step in steps for collective in step.step.collectives),
    }


def _rank_wait_figures(analysis: WaitAnalysis, rank: int, steps: Sequence[RankStep]) -> dict[str, Any]:
    """The fields of a RankResult about waiting. How long the rank itself waited is left out if the clock error exceeds
    it."""
    last_arrivals = (last for step in analysis.aligned.steps for last in step.last_arrivals.values())
    caused = {
        "wait_caused_s": analysis.caused_ns[rank] / S,
        "last_arrivals": sum(last == rank for last in last_arrivals),
    }
    waited_ns = sum(step.wait_ns for step in steps)
    if analysis.uncertainty and sum(analysis.uncertainty.by_rank[rank]) > waited_ns:
        return caused
    waited_for: dict[int, float] = {}
    for wait in (wait for step in steps for wait in step.waits):
        waited_for[wait.late_rank] = waited_for.get(wait.late_rank, 0.0) + (wait.end - wait.begin) / S
    return caused | {
        "waited_for_s": dict(sorted(waited_for.items())),
        "wait_s": waited_ns / S,
        "transfer_s": sum(step.transfer_ns for step in steps) / S,  # as uncertain as the wait
    }
