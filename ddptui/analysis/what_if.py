"""Estimates how long a trial would have taken with other work, by replaying its steps with their dependencies. Pure.

In the replay, a rank's own work takes a given time. An operation ends on a rank when all needed ranks have entered it
and the measured transfer time has passed. With the measured work, this reproduces the measured time, except if a rank
was stopped within an operation: then the others wait for it at their next operation instead.
"""

from collections.abc import Callable, Iterator, Sequence
from statistics import fmean, median

from ddptui.analysis.culprit import WaitAnalysis
from ddptui.analysis.operations import OperationKey
from ddptui.analysis.policy import SAME_LIMIT
from ddptui.analysis.results import WhatIf
from ddptui.analysis.waits import AlignedStep
from ddptui.text.words import S
from ddptui.wire.phases import PHASES

DATA = PHASES.index("data")

Entered = dict[tuple[int, OperationKey], dict[int, float]]  # by step and operation: entry time of each rank, in ns
Work = Callable[[AlignedStep, int], Sequence[float]]  # a rank's own work in a step, by part, in ns


def measured_work(step: AlignedStep, rank: int) -> Sequence[float]:
    """The work as measured."""
    return step.ranks[rank].work_ns


def equal_work(work: Work) -> Work:
    """Returns work in which each rank takes the mean over all ranks, for each step and part."""

    def mean_work(step: AlignedStep, _: int) -> Sequence[float]:
        return [fmean(parts) for parts in zip(*(work(step, rank) for rank in step.ranks), strict=True)]

    return mean_work


def replayed_ns(steps: Sequence[AlignedStep], work: Work = measured_work) -> float:
    """Replays the steps with the given work. Returns the time from the start of the first step to the end of the
    slowest rank, in ns.

    Raises AssertionError if ranks wait for each other in a cycle, which no true record contains.
    """
    if not steps:
        return 0.0
    entered: Entered = {}
    ends_ns: list[float] = []
    running = [_replay(rank, steps, work, entered, ends_ns) for rank in sorted(steps[0].ranks)]
    while running:
        went_on = [next(replay, None) for replay in running]  # None: the rank has finished its steps
        if all(moved is False for moved in went_on):
            raise AssertionError("ranks wait for each other in a cycle")
        running = [replay for replay, moved in zip(running, went_on, strict=True) if moved is not None]
    return max(ends_ns) - min(step.step.begin_ns for step in steps[0].ranks.values())


def _replay(
    rank: int, steps: Sequence[AlignedStep], work: Work, entered: Entered, ends_ns: list[float]
) -> Iterator[bool]:
    """Replays a rank's steps, and records when it enters operations and when it ends. While an operation lacks another
    rank, yields whether this rank has made progress since the last yield."""
    moment = float(steps[0].ranks[rank].step.begin_ns)
    for step in steps:
        rank_step = step.ranks[rank]
        measured, wanted = rank_step.work_ns, work(step, rank)
        factors = [want / was if was else 0.0 for was, want in zip(measured, wanted, strict=True)]
        # A part without measured work has no event to scale: its wanted time passes at the start of the step.
        moment += sum(want for was, want in zip(measured, wanted, strict=True) if not was)
        for event in rank_step.program:
            moment += sum(part * factor for part, factor in zip(event.work, factors, strict=True))
            if event.key is None:  # the end of the step
                continue
            moments = entered.setdefault((step.number, event.key), {})
            if event.enters:
                moments[rank] = moment
            if event.awaits:
                needed, went_on = step.needs[event.key][rank], True
                while any(other not in moments for other in needed):
                    yield went_on
                    went_on = False
                moment = max(moment, max(moments[other] for other in needed) + rank_step.transfers[event.key])
    ends_ns.append(moment)


def what_if(analysis: WaitAnalysis) -> WhatIf:
    """The train time if the culprit had worked like the others, and if all ranks had worked alike.

    The estimate tends to be too short: while the culprit sleeps, the others have caches and memory bandwidth to
    themselves. With short steps it tends to be too long: ranks that waited start each step with cold caches.
    `benchmarks/what_if.py` measures both. If all ranks meet the same limit, e.g. slow loaders, nothing would be gained
    without the culprit, and no such time is given.
    """
    steps, measured_s = analysis.aligned.steps, analysis.train_ns / S
    culprit = analysis.culprit.rank if analysis.culprit and not _meet_same_limit(analysis) else None
    work = measured_work if culprit is None else _without_culprit(culprit)
    # The replay of the measured work may miss the measured time slightly, so use only ratios of replays.
    scale = measured_s / replayed_ns(steps)
    without = measured_s if culprit is None else min(measured_s, replayed_ns(steps, work) * scale)
    alike = min(without, replayed_ns(steps, equal_work(work)) * scale)
    return WhatIf(
        without_culprit=None if culprit is None else without,
        without_skew=alike,
    )


def _meet_same_limit(analysis: WaitAnalysis) -> bool:
    """Whether the culprit is late with its data, and the others fetch data for much of the time as well."""
    culprit, steps = analysis.culprit, analysis.aligned.steps
    if culprit is None or culprit.phase != PHASES[DATA]:
        return False
    others = [rank for rank in steps[0].ranks if rank != culprit.rank]
    fetching = fmean(step.ranks[rank].work_ns[DATA] for rank in others for step in steps) * len(steps)
    return fetching > SAME_LIMIT * analysis.covered_ns


def _without_culprit(culprit: int) -> Work:
    """Returns work in which the culprit takes the median of the others, for each step and part."""

    def work(step: AlignedStep, rank: int) -> Sequence[float]:
        if rank != culprit:
            return measured_work(step, rank)
        others = [of_rank.work_ns for other, of_rank in step.ranks.items() if other != culprit]
        return [median(parts) for parts in zip(*others, strict=True)]

    return work
