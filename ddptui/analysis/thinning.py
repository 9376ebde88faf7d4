"""Thins what a long launch reports: keeps evenly spaced items, or blocks of steps, sums over all steps, and scales
figures up. Pure.

Blocks have the same step numbers on all ranks, so that steps can be aligned. Blocks are kept or dropped as a whole,
since a rank may be late because of the step before.
"""

from statistics import fmean
from typing import Generic, TypeVar

import msgspec
from msgspec.structs import asdict, replace

from ddptui.analysis.results import ConfidenceInterval, Culprit, RankResult, RepeatResult, WhatIf
from ddptui.text.words import S
from ddptui.wire.messages import Step, Trained

Item = TypeVar("Item")
MOST_ITEMS = 512  # more than a terminal has columns of dots; readings of a GPU in eight minutes

BLOCK = 32  # steps per block
MOST_EVENTS = 400_000  # steps and collectives kept for all ranks: some 200 MB, and half a minute to analyze
MOST_EPOCHS = 10_000  # whose lengths are kept per rank
StepsByRank = dict[int, list[Step]]


class Thinned(msgspec.Struct, Generic[Item]):
    """Numbered items of a training of any length, of which a bounded number is kept."""

    points: list[tuple[int, Item]] = []  # number and item
    most: int = MOST_ITEMS
    stride: int = 1  # every how many numbers an item is kept; doubled when there are too many

    def add(self, number: int, item: Item) -> None:
        """Add an item, if its number is a multiple of the stride."""
        if number % self.stride:
            return
        self.points.append((number, item))
        if len(self.points) > self.most:
            self.stride *= 2
            self.points = [point for point in self.points if point[0] % self.stride == 0]


class RankTotals(msgspec.Struct):
    """Sums over all steps of one rank, kept or dropped."""

    first: Step  # the step received first, not necessarily the earliest
    begin_ns: int  # when the earliest step began
    begin: Step | None = None  # the first measured step
    end: Step | None = None  # the last measured step
    steps: int = 0  # number of measured steps received
    passed: int = 0  # step numbers in between that were not measured: lost at a restart, or warm-up after it
    warms_up: bool = True  # whether the step received last was a warm-up step
    samples: int = 0  # in measured steps
    queued_ns: int = 0  # in measured steps: time in the queue for a core
    slept: dict[str, tuple[int, int]] = {}  # in measured steps: site -> number of injected delays, and their sum in ns
    epoch: tuple[Step, Step] | None = None  # the current epoch's first step, and its last one so far
    epochs: list[tuple[int, float | None]] = []  # finished epochs: batches, and ns (None: with warm-up steps)

    def add(self, step: Step) -> None:
        """Count a step. Delays in warm-up steps do not count, but a delay at the start does: it precedes all steps."""
        self.begin_ns = min(self.begin_ns, step.begin_ns)
        for slept in step.slept:
            if not step.warmup or slept.at == "start":
                fired, ns = self.slept.get(slept.at, (0, 0))
                self.slept[slept.at] = fired + 1, ns + slept.end_ns - slept.begin_ns
        if not step.warmup:
            if self.end and self.warms_up:
                self.passed += step.step - self.end.step - 1
            self.begin = self.begin or step
            self.end = step
            self.steps += 1
            self.samples += step.samples
            self.queued_ns += step.queued_ns
        first, last = self.epoch or (step, step)
        if step.epoch != first.epoch or (step.warmup and not self.warms_up):  # warm-up again: after a restart
            if step.epoch == first.epoch + 1 and len(self.epochs) < MOST_EPOCHS:
                self.epochs.append(_batches_and_ns(first, last, step.step))
            first = step
        self.epoch = first, step
        self.warms_up = step.warmup

    def epochs_ns(self, batches: int | None) -> list[float]:
        """The lengths of all complete epochs without warm-up steps; if not every step is reported, their mean. batches:
        of an epoch; None: not known, so as many as the longest finished epoch has."""
        if self.factor > 1:  # where an epoch ends is known to a few steps only; over many epochs the errors cancel
            known = [ns for _, ns in self.epochs if ns is not None]
            return [fmean(known)] if known else []
        whole = batches or max((of_epoch for of_epoch, _ in self.epochs), default=None)
        current = [_batches_and_ns(*self.epoch, self.epoch[1].step + 1)] if self.epoch else []
        return [ns for made, ns in [*self.epochs, *current] if ns is not None and whole and made >= whole > 0]

    @property
    def made(self) -> int:
        """The number of measured steps that the rank made, unreported ones (`watch --every N`) included."""
        return max(self.steps, self.end.step - self.begin.step + 1 - self.passed) if self.begin and self.end else 0

    @property
    def factor(self) -> float:
        """The factor that scales sums over reported steps to all measured steps."""
        return self.made / self.steps if self.steps else 1.0

    @property
    def delays(self) -> dict[str, tuple[int, float]]:
        """The delays injected into all measured steps, by site: their number, and their sum in ns."""
        factors = {at: 1.0 if at == "start" else self.factor for at in self.slept}
        return {at: (round(fired * factors[at]), ns * factors[at]) for at, (fired, ns) in self.slept.items()}

    def span(self) -> Trained | None:
        """The measured part of the training, as a rank without instruments would report it. None: no measured step."""
        if self.begin is None or self.end is None:
            return None
        return Trained(
            rank=self.first.rank,
            first_ns=self.first.begin_ns,
            begin_ns=self.begin.begin_ns,
            end_ns=self.end.end_ns,
            steps=self.made,
            samples=round(self.samples * self.factor),
            loss=self.end.loss,
        )


def _batches_and_ns(first: Step, last: Step, end: int) -> tuple[int, float | None]:
    """An epoch's number of batches and its length in ns; None: with warm-up steps. end: the number of the step after
    it."""
    batches, seen = end - first.step, max(1, last.step + 1 - first.step)  # `watch --every N` may not report the last
    return batches, None if first.warmup else (last.end_ns - first.begin_ns) * batches / seen


class ThinnedSteps(msgspec.Struct):
    """The steps of a launch, thinned when there are too many."""

    kept: StepsByRank = {}  # the steps of every `stride`-th block, by rank, in the order received
    totals: dict[int, RankTotals] = {}  # by rank
    stride: int = 1
    events: int = 0  # number of kept steps and collectives
    most: int = 0  # the limit of events, if a single block exceeds MOST_EVENTS; otherwise 0

    def add(self, step: Step) -> None:
        """Count a step, and keep it if its block is kept."""
        if step.rank not in self.totals:
            self.totals[step.rank] = RankTotals(step, step.begin_ns)
            self.kept[step.rank] = []
        self.totals[step.rank].add(step)
        if step.step // BLOCK % self.stride == 0:
            self.kept[step.rank].append(step)
            self.events += 1 + len(step.collectives)
            if self.events > max(self.most, MOST_EVENTS):
                self._thin()

    def _thin(self) -> None:
        # With a doubled stride, the remaining blocks are a subset of those already kept.
        self.stride *= 2
        for steps in self.kept.values():
            steps[:] = [step for step in steps if step.step // BLOCK % self.stride == 0]
        self.events = sum(1 + len(step.collectives) for steps in self.kept.values() for step in steps)
        self.most = 2 * self.events if self.events > MOST_EVENTS else 0  # one block is always kept


def extrapolate(result: RepeatResult, kept: int, train_ns: int | None) -> RepeatResult:
    """Scales the sums of a result from the kept steps to all measured steps. kept: their number; train_ns: their time,
    None if waits were not analyzed."""
    factor = result.steps / kept  # sums grow with the number of steps; shares and medians do not
    result = replace(result, looked_at=kept, ranks=[_scaled_rank(rank, factor) for rank in result.ranks])
    if train_ns is None:
        return result
    culprit, what_if = result.culprit and scaled_culprit(result.culprit, factor), result.what_if_s
    if what_if:  # estimated train times, so far of the kept steps alone
        longer = result.train_time_s / (train_ns / S)
        what_if = WhatIf(**{name: s and s * longer for name, s in asdict(what_if).items()})
    return replace(result, culprit=culprit, what_if_s=what_if)


def scaled_culprit(culprit: Culprit, factor: float) -> Culprit:
    """The culprit with its times summed over steps multiplied by `factor`, where only some steps were kept."""
    excess = ConfidenceInterval(**{name: s * factor for name, s in asdict(culprit.excess_s).items()})
    return replace(culprit, wait_caused_s=culprit.wait_caused_s * factor, excess_s=excess)


def _scaled_rank(rank: RankResult, factor: float) -> RankResult:
    sums = ("wait_s", "transfer_s", "exposed_s", "wait_caused_s")
    counts = ("last_arrivals", "collectives", "bytes")
    figures = {name: figure for name in (*sums, *counts) if (figure := getattr(rank, name)) is not None}
    return replace(
        rank,
        waited_for_s={late_rank: s * factor for late_rank, s in rank.waited_for_s.items()},
        work_s={part: s * factor for part, s in rank.work_s.items()},
        **{name: figure * factor if name in sums else round(figure * factor) for name, figure in figures.items()},
    )
