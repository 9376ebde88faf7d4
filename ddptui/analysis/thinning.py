"""Keeps evenly spaced blocks of a long launch's steps, sums over all of them, and scales figures back up. Pure.

Blocks have the same step numbers on all ranks, so that steps can be aligned. A block is kept as a whole, since a rank
may be late because of the step before.
"""

from bisect import bisect_right
from collections.abc import Iterable
from itertools import pairwise

import msgspec
from msgspec.structs import asdict, replace

from ddptui.analysis.results import ConfidenceInterval, Culprit, RankResult, RepeatResult, WhatIf
from ddptui.text.units import S
from ddptui.wire.messages import Pause, Step, Trained
from ddptui.wire.retime import shift_times

BLOCK = 32  # steps
MOST_EVENTS = 400_000  # steps and collectives of all ranks together: some 200 MB, and half a minute to analyze
StepsByRank = dict[int, list[Step]]


class RankTotals(msgspec.Struct):
    """Sums over all steps of one rank, kept or not."""

    first: Step  # as received, which need not be in order
    begin_ns: int  # of the earliest
    begin: Step | None = None  # the first measured step
    end: Step | None = None  # the last one
    steps: int = 0  # measured
    passed: int = 0  # numbers between measured steps of no such step: those lost at a restart, and the warm-up after it
    warms_up: bool = True  # at the step that came last
    samples: int = 0  # in these
    queued_ns: int = 0  # in these, without a core
    slept: dict[str, tuple[int, int]] = {}  # in these, injected delays by site: how often, and how long in ns

    def add(self, step: Step) -> None:
        """Count a step. Delays count after the warm-up, and at the start always: this is before any step."""
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
        self.warms_up = step.warmup

    @property
    def made(self) -> int:
        """The measured steps that the rank made, also those that it did not report, as under `watch --every N`."""
        return max(self.steps, self.end.step - self.begin.step + 1 - self.passed) if self.begin and self.end else 0

    @property
    def factor(self) -> float:
        """By which sums over the steps that it reported are scaled to all that it made."""
        return self.made / self.steps if self.steps else 1.0

    @property
    def delays(self) -> dict[str, tuple[int, float]]:
        """The delays injected into all steps that it made, by site: how often, and how long in ns."""
        factors = {at: 1.0 if at == "start" else self.factor for at in self.slept}
        return {at: (round(fired * factors[at]), ns * factors[at]) for at, (fired, ns) in self.slept.items()}

    def span(self) -> Trained | None:
        """The message that the rank would have sent without instruments. None: no step was measured."""
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


class ThinnedSteps(msgspec.Struct):
    """The steps of a launch, thinned once they are too many."""

    kept: StepsByRank = {}  # by rank in the order received: of every `stride`-th block of steps
    totals: dict[int, RankTotals] = {}
    stride: int = 1
    events: int = 0  # steps and collectives that are kept
    most: int = 0  # events that may be kept where a single block exceeds MOST_EVENTS, else 0

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
        # Doubling keeps a subset of the blocks that are kept already.
        self.stride *= 2
        for steps in self.kept.values():
            steps[:] = [step for step in steps if step.step // BLOCK % self.stride == 0]
        self.events = sum(1 + len(step.collectives) for steps in self.kept.values() for step in steps)
        self.most = 2 * self.events if self.events > MOST_EVENTS else 0  # one block always stays


def close_gaps(steps: StepsByRank, pauses: Iterable[Pause]) -> tuple[StepsByRank, list[Pause]]:
    """The same steps as if no time lay between the blocks; and the pauses within them."""
    numbers = sorted({step.step for of_rank in steps.values() for step in of_rank})
    first_of_block = [*numbers[:1], *(number for before, number in pairwise(numbers) if number > before + 1)]
    blocks: list[StepsByRank] = [{rank: [] for rank in steps} for _ in first_of_block]
    for rank, of_rank in steps.items():
        for step in of_rank:
            blocks[bisect_right(first_of_block, step.step) - 1][rank].append(step)
    cuts_ns = _cuts_ns(blocks)
    closed: StepsByRank = {rank: [] for rank in steps}
    for block, cut_ns in zip(blocks, cuts_ns, strict=True):
        for rank, of_rank in block.items():
            closed[rank] += [shift_times(step, -cut_ns) for step in of_rank]
    begins = [min(step.begin_ns for steps in block.values() for step in steps) for block in blocks]
    ends = [max(step.end_ns for steps in block.values() for step in steps) for block in blocks]
    within = []
    for pause in pauses:
        at = bisect_right(begins, pause.begin_ns) - 1
        if at >= 0 and pause.begin_ns < ends[at]:  # else it was in steps that are not kept
            within.append(shift_times(pause, -cuts_ns[at]))
    return closed, within


def _cuts_ns(blocks: list[StepsByRank]) -> list[int]:
    """By how much each block moves: until for some rank no time is left between it and the block before."""
    cuts_ns, ends_ns = [0] * len(blocks), dict[int, int]()
    for index, block in enumerate(blocks):
        known = [(rank, steps) for rank, steps in block.items() if steps and rank in ends_ns]
        gaps_ns = [min(step.begin_ns for step in steps) - ends_ns[rank] for rank, steps in known]
        cuts_ns[index] = (cuts_ns[index - 1] if index else 0) + max(0, min(gaps_ns, default=0))
        ends_ns |= {rank: max(step.end_ns for step in steps) for rank, steps in block.items() if steps}
    return cuts_ns


def extrapolate(result: RepeatResult, kept: int, train_ns: int | None) -> RepeatResult:
    """The result with sums over the kept steps scaled to all that were made. kept: how many; train_ns: their time, None
    where waits were not analyzed."""
    factor = result.steps / kept  # sums over steps grow with their number; shares and medians stay
    result = replace(result, looked_at=kept, ranks=[_scaled_rank(rank, factor) for rank in result.ranks])
    if train_ns is None:
        return result
    culprit, what_if = result.culprit and scaled_culprit(result.culprit, factor), result.what_if_s
    if what_if:  # its times are train times, of the kept steps alone
        longer = result.train_time_s / (train_ns / S)
        what_if = WhatIf(**{name: s and s * longer for name, s in asdict(what_if).items()})
    return replace(result, culprit=culprit, what_if_s=what_if)


def scaled_culprit(culprit: Culprit, factor: float) -> Culprit:
    """The culprit with its sums over steps scaled."""
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
