"""How long a trial would have taken with other work in it: its steps once more, through the dependencies. Pure.

A rank's own work takes what it is said to take; an operation is over on a rank when all that it needs have entered it,
and the transfer that was measured has passed. With the work as it was, the measured time comes out again. (But for a
rank that stood still within an operation: here, the others meet what that took at their next operation.)
"""

from collections.abc import Callable, Sequence
from statistics import fmean, median

from ddptui.analysis.operations import OperationKey
from ddptui.analysis.own_work import Event
from ddptui.analysis.results import WhatIf
from ddptui.analysis.verdict import WaitAnalysis
from ddptui.analysis.waits import AlignedStep
from ddptui.text.units import S

Work = Callable[[AlignedStep, int], Sequence[float]]  # of a rank in a step, ns by part


def measured_work(step: AlignedStep, rank: int) -> Sequence[float]:
    return step.ranks[rank].work_ns


def equal_work(work: Work) -> Work:
    """Every rank works as long as all do on average, step by step and part by part."""

    def alike(step: AlignedStep, _: int) -> Sequence[float]:
        return [fmean(parts) for parts in zip(*(work(step, rank) for rank in step.ranks), strict=True)]

    return alike


def replayed_ns(steps: Sequence[AlignedStep], work: Work = measured_work) -> float:
    """The time from the first step's begin to the end of the slowest rank, ns."""
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
    """One rank on its way through its steps."""

    def __init__(self, rank: int, steps: Sequence[AlignedStep], work: Work) -> None:
        self._rank = rank
        self._steps = steps
        self._work = work
        self._at = 0  # step
        self._event = 0
        self._worked = False  # the own work before the event is done
        self._factors: list[float] = []
        self.moment = float(steps[0].ranks[rank].step.begin_ns)

    @property
    def is_over(self) -> bool:
        return self._at == len(self._steps)

    def run(self, entered: dict[tuple[int, OperationKey], dict[int, float]]) -> bool:
        """Go on until an operation lacks a rank. Whether there was anything to do."""
        went_on = False
        while not self.is_over:
            step = self._steps[self._at]
            own = step.ranks[self._rank]
            event = own.program[self._event]
            if not self._worked:
                self._work_until(event, step)
                went_on = True
                if event.enters and event.key is not None:
                    entered.setdefault((step.number, event.key), {})[self._rank] = self.moment
            if event.awaits and event.key is not None:
                here = entered[step.number, event.key]
                needed = step.needs[event.key][self._rank]
                if any(rank not in here for rank in needed):
                    return went_on
                over = max(here[rank] for rank in needed) + own.transfers[event.key]
                self.moment = max(self.moment, over)
            self._next_event(len(own.program))
        return went_on

    def _work_until(self, event: Event, step: AlignedStep) -> None:
        if self._event == 0:
            measured, wanted = step.ranks[self._rank].work_ns, self._work(step, self._rank)
            self._factors = [want / was if was else 0.0 for was, want in zip(measured, wanted, strict=True)]
            # What was no work at all cannot be stretched: it is done at the beginning.
            self.moment += sum(want for was, want in zip(measured, wanted, strict=True) if not was)
        self.moment += sum(part * factor for part, factor in zip(event.work, self._factors, strict=True))
        self._worked = True

    def _next_event(self, events: int) -> None:
        self._worked = False
        self._event += 1
        if self._event == events:
            self._at, self._event = self._at + 1, 0


def what_if(judgement: WaitAnalysis) -> WhatIf:
    """The train time with the culprit's work replaced by what the others worked; and with all ranks' work alike."""
    joined, measured_s = judgement.aligned.steps, judgement.train_ns / S
    culprit = judgement.culprit.rank if judgement.culprit else None
    work = measured_work if culprit is None else _without_culprit(culprit)
    scale = measured_s / replayed_ns(joined)
    without = measured_s if culprit is None else min(measured_s, replayed_ns(joined, work) * scale)
    return WhatIf(
        without_culprit=without if culprit is not None else None,
        without_skew=min(without, replayed_ns(joined, equal_work(work)) * scale),
    )


def _without_culprit(culprit: int) -> Work:
    def work(step: AlignedStep, rank: int) -> Sequence[float]:
        if rank != culprit:
            return measured_work(step, rank)
        others = [own.work_ns for other, own in step.ranks.items() if other != culprit]
        return [median(parts) for parts in zip(*others, strict=True)]

    return work
