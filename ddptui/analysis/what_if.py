"""Estimates how long a trial would have taken with other work: replays its steps through their dependencies. Pure.

A rank's own work takes a given time. An operation is over on a rank once all needed ranks have entered it and the
measured transfer has passed. With the measured work, the measured time comes out again, except for ranks that stood
still within an operation: here, the others meet that time at their next operation.
"""

from collections.abc import Callable, Iterator, Sequence
from statistics import fmean, median

from ddptui.analysis.culprit import WaitAnalysis
from ddptui.analysis.operations import OperationKey
from ddptui.analysis.policy import SAME_LIMIT
from ddptui.analysis.results import WhatIf
from ddptui.analysis.waits import AlignedStep
from ddptui.text.units import S
from ddptui.wire.phases import PHASES

DATA = PHASES.index("data")

Entered = dict[tuple[int, OperationKey], dict[int, float]]  # by step and operation: when each rank entered it, ns
Work = Callable[[AlignedStep, int], Sequence[float]]  # a rank's own work in a step, ns by part


def measured_work(step: AlignedStep, rank: int) -> Sequence[float]:
    """The work as it was."""
    return step.ranks[rank].work_ns


def equal_work(work: Work) -> Work:
    """Work by which every rank takes the mean over all ranks, for each step and part."""

    def mean_work(step: AlignedStep, _: int) -> Sequence[float]:
        return [fmean(parts) for parts in zip(*(work(step, rank) for rank in step.ranks), strict=True)]

    return mean_work


def replayed_ns(steps: Sequence[AlignedStep], work: Work = measured_work) -> float:
    """The time from the first step's begin to the end of the slowest rank, in ns.

    Raises AssertionError if ranks wait for each other in a circle, which no true record contains.
    """
    if not steps:
        return 0.0
    entered: Entered = {}
    ends_ns: list[float] = []
    running = [_replay(rank, steps, work, entered, ends_ns) for rank in sorted(steps[0].ranks)]
    while running:
        went_on = [next(replay, None) for replay in running]  # None: the rank has done all its steps
        if all(moved is False for moved in went_on):
            raise AssertionError("ranks wait for each other in a circle")
        running = [replay for replay, moved in zip(running, went_on, strict=True) if moved is not None]
    return max(ends_ns) - min(step.step.begin_ns for step in steps[0].ranks.values())


def _replay(
    rank: int, steps: Sequence[AlignedStep], work: Work, entered: Entered, ends_ns: list[float]
) -> Iterator[bool]:
    """Do a rank's steps, and note when it enters operations and when it ends. Where an operation lacks a rank, yields
    whether this one has come any further since it last did."""
    moment = float(steps[0].ranks[rank].step.begin_ns)
    for step in steps:
        rank_step = step.ranks[rank]
        measured, wanted = rank_step.work_ns, work(step, rank)
        factors = [want / was if was else 0.0 for was, want in zip(measured, wanted, strict=True)]
        # A part without measured work has no event to be scaled at: what it is to take passes at the beginning.
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
    """The train time if the culprit had worked as the others, and if besides all ranks had worked alike.

    It is rather too short: while the culprit sleeps, the others have the machine's caches and memory to themselves, and
    work faster than they would beside it. With short steps it is too long: ranks that have waited start each step with
    cold caches. `benchmarks/what_if.py` measures by how much. Where all ranks meet the same limit, as with loaders that
    are too slow for all, nothing would be gained without the culprit, and no such time is given.
    """
    steps, measured_s = analysis.aligned.steps, analysis.train_ns / S
    culprit = analysis.culprit.rank if analysis.culprit and not _meet_same_limit(analysis) else None
    work = measured_work if culprit is None else _without_culprit(culprit)
    # The replay of the measured work may miss the measured time a little: only ratios of replays are used.
    scale = measured_s / replayed_ns(steps)
    without = measured_s if culprit is None else min(measured_s, replayed_ns(steps, work) * scale)
    alike = min(without, replayed_ns(steps, equal_work(work)) * scale)
    return WhatIf(
        without_culprit=None if culprit is None else without,
        without_skew=alike,
    )


def _meet_same_limit(analysis: WaitAnalysis) -> bool:
    """Whether the culprit is late with its data, and the others fetch theirs as good as all the time."""
    culprit, steps = analysis.culprit, analysis.aligned.steps
    if culprit is None or culprit.phase != PHASES[DATA]:
        return False
    others = [rank for rank in steps[0].ranks if rank != culprit.rank]
    fetching = fmean(step.ranks[rank].work_ns[DATA] for rank in others for step in steps) * len(steps)
    return fetching > SAME_LIMIT * analysis.covered_ns


def _without_culprit(culprit: int) -> Work:
    """Work by which the culprit takes the median of the others, for each step and part."""

    def work(step: AlignedStep, rank: int) -> Sequence[float]:
        if rank != culprit:
            return measured_work(step, rank)
        others = [of_rank.work_ns for other, of_rank in step.ranks.items() if other != culprit]
        return [median(parts) for parts in zip(*others, strict=True)]

    return work
