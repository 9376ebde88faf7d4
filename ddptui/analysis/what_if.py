"""Estimates how long a trial would have taken with other work: replays its steps through their dependencies. Pure.

A rank's own work takes a given time. An operation is over on a rank once all needed ranks have entered it and the
measured transfer has passed. With the measured work, the measured time comes out again, except for ranks that stood
still within an operation: here, the others meet that time at their next operation.
"""

from collections.abc import Callable, Sequence
from statistics import fmean, median

from ddptui.analysis.operations import OperationKey
from ddptui.analysis.own_work import Event
from ddptui.analysis.results import WhatIf
from ddptui.analysis.verdict import WaitAnalysis
from ddptui.analysis.waits import AlignedStep
from ddptui.text.units import S

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
    ranks = [_Rank(rank, steps, work) for rank in sorted(steps[0].ranks)]
    entered: dict[tuple[int, OperationKey], dict[int, float]] = {}
    running = ranks
    while running:
        went_on = [rank.run(entered) for rank in running]
        running = [rank for rank in running if not rank.is_over]
        if running and not any(went_on):
            raise AssertionError("ranks wait for each other in a circle")
    began = min(step.step.begin_ns for step in steps[0].ranks.values())
    return max(rank.moment for rank in ranks) - began


class _Rank:
    """One rank on its way through its steps. moment: the time that it has reached, ns."""

    def __init__(self, rank: int, steps: Sequence[AlignedStep], work: Work) -> None:
        self._rank = rank
        self._steps = steps
        self._work = work
        self._step = 0
        self._event = 0
        self._worked = False  # the own work before the event is done
        self._factors: list[float] = []
        self.moment = float(steps[0].ranks[rank].step.begin_ns)

    @property
    def is_over(self) -> bool:
        """Whether all its steps are done."""
        return self._step == len(self._steps)

    def run(self, entered: dict[tuple[int, OperationKey], dict[int, float]]) -> bool:
        """Go on until an operation lacks a rank. Returns whether the rank came any further."""
        went_on = False
        while not self.is_over:
            step = self._steps[self._step]
            rank_step = step.ranks[self._rank]
            event = rank_step.program[self._event]
            if not self._worked:
                self._work_until(event, step)
                went_on = True
                if event.enters and event.key is not None:
                    entered.setdefault((step.number, event.key), {})[self._rank] = self.moment
            if event.awaits and event.key is not None:
                moments = entered[step.number, event.key]
                needed = step.needs[event.key][self._rank]
                if any(rank not in moments for rank in needed):
                    return went_on
                over = max(moments[rank] for rank in needed) + rank_step.transfers[event.key]
                self.moment = max(self.moment, over)
            self._next_event(len(rank_step.program))
        return went_on

    def _work_until(self, event: Event, step: AlignedStep) -> None:
        if self._event == 0:
            measured, wanted = step.ranks[self._rank].work_ns, self._work(step, self._rank)
            self._factors = [want / was if was else 0.0 for was, want in zip(measured, wanted, strict=True)]
            # A part without measured work has no event to be scaled at: what it is to take passes at the beginning.
            self.moment += sum(want for was, want in zip(measured, wanted, strict=True) if not was)
        self.moment += sum(part * factor for part, factor in zip(event.work, self._factors, strict=True))
        self._worked = True

    def _next_event(self, events: int) -> None:
        self._worked = False
        self._event += 1
        if self._event == events:
            self._step, self._event = self._step + 1, 0


def what_if(analysis: WaitAnalysis) -> WhatIf:
    """The train time if the culprit had worked as the others, and if besides all ranks had worked alike."""
    steps, measured_s = analysis.aligned.steps, analysis.train_ns / S
    culprit = analysis.culprit.rank if analysis.culprit else None
    work = measured_work if culprit is None else _without_culprit(culprit)
    # The replay of the measured work may miss the measured time a little: only ratios of replays are used.
    scale = measured_s / replayed_ns(steps)
    without = measured_s if culprit is None else min(measured_s, replayed_ns(steps, work) * scale)
    return WhatIf(
        without_culprit=without if culprit is not None else None,
        without_skew=min(without, replayed_ns(steps, equal_work(work)) * scale),
    )


def _without_culprit(culprit: int) -> Work:
    """Work by which the culprit takes the median of the others, for each step and part."""

    def work(step: AlignedStep, rank: int) -> Sequence[float]:
        if rank != culprit:
            return measured_work(step, rank)
        others = [of_rank.work_ns for other, of_rank in step.ranks.items() if other != culprit]
        return [median(parts) for parts in zip(*others, strict=True)]

    return work
