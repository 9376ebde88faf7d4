"""The steps of a launch that may be long: all of them, or evenly spaced blocks of them, and what all of them come to.
Pure.

Blocks have the same step numbers on all ranks, so that these can be put side by side, and are whole, since a rank that
is late may be so because of the step before.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from itertools import pairwise

import msgspec
from msgspec.structs import replace

from ddptui.analysis.results import (
    ConfidenceInterval,
    Culprit,
    RankResult,
    RepeatResult,
    WhatIf,
)
from ddptui.text.units import S
from ddptui.wire.messages import (
    Collective,
    Pause,
    Slept,
    Step,
    Trained,
)

BLOCK = 32  # steps
MOST_EVENTS = 400_000  # of all ranks together, steps and collectives: some 200 MB, and half a minute to judge
StepsByRank = dict[int, list[Step]]


class RankTotals(msgspec.Struct):
    """What one rank's steps come to, whether or not they are kept. begin_ns: when the first of all began; begin, end:
    the first and the last one that was measured; slept: by site, how often, and how long in ns."""

    first: Step
    begin_ns: int
    begin: Step | None = None
    end: Step | None = None
    steps: int = 0
    samples: int = 0
    slept: dict[str, tuple[int, int]] = {}

    def add(self, step: Step) -> None:
        self.begin_ns = min(self.begin_ns, step.begin_ns)
        for slept in step.slept:
            if not step.warmup or slept.at == "start":
                fired, ns = self.slept.get(slept.at, (0, 0))
                self.slept[slept.at] = fired + 1, ns + slept.end_ns - slept.begin_ns
        if not step.warmup:
            self.begin = self.begin or step
            self.end = step
            self.steps += 1
            self.samples += step.samples

    def span(self) -> Trained | None:
        """What the rank would have said of them without instruments; None: no step was measured."""
        if self.begin is None or self.end is None:
            return None
        return Trained(
            rank=self.first.rank,
            first_ns=self.first.begin_ns,
            begin_ns=self.begin.begin_ns,
            end_ns=self.end.end_ns,
            steps=self.steps,
            samples=self.samples,
            loss=self.end.loss,
        )


class ThinnedSteps(msgspec.Struct):
    """`kept`: by rank, in the order heard; every `stride`-th block of steps."""

    kept: StepsByRank = {}
    totals: dict[int, RankTotals] = {}
    stride: int = 1
    events: int = 0
    most: int = 0  # none: MOST_EVENTS

    def add(self, step: Step) -> None:
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
        self.stride *= 2
        for own in self.kept.values():
            own[:] = [step for step in own if step.step // BLOCK % self.stride == 0]
        self.events = sum(1 + len(step.collectives) for own in self.kept.values() for step in own)
        self.most = 2 * self.events if self.events > MOST_EVENTS else 0  # one block stays, however much it is


def close_gaps(steps: StepsByRank, pauses: Iterable[Pause]) -> tuple[StepsByRank, list[Pause]]:
    """The same steps as if no time lay between the blocks; and the pauses within them."""
    numbers = sorted({step.step for own in steps.values() for step in own})
    first_of_block = [*numbers[:1], *(number for before, number in pairwise(numbers) if number > before + 1)]
    blocks: list[StepsByRank] = [{rank: [] for rank in steps} for _ in first_of_block]
    for rank, own in steps.items():
        for step in own:
            blocks[bisect_right(first_of_block, step.step) - 1][rank].append(step)
    cuts = _cuts(blocks)
    closed: StepsByRank = {rank: [] for rank in steps}
    for block, cut_ns in zip(blocks, cuts, strict=True):
        for rank, own in block.items():
            closed[rank] += [_earlier(step, cut_ns) for step in own]
    return closed, _pauses_within(blocks, cuts, pauses)


def _cuts(blocks: list[StepsByRank]) -> list[int]:
    """By how much each block moves, ns: until the first rank has no time left between it and the one before."""
    cuts, ends = [0] * len(blocks), dict[int, int]()
    for number, block in enumerate(blocks):
        gaps = [min(step.begin_ns for step in own) - ends[rank] for rank, own in block.items() if own and rank in ends]
        cuts[number] = (cuts[number - 1] if number else 0) + max(0, min(gaps, default=0))
        ends |= {rank: max(step.end_ns for step in own) for rank, own in block.items() if own}
    return cuts


def _pauses_within(blocks: list[StepsByRank], cuts: list[int], pauses: Iterable[Pause]) -> list[Pause]:
    begins = [min(step.begin_ns for own in block.values() for step in own) for block in blocks]
    ends = [max(step.end_ns for own in block.values() for step in own) for block in blocks]
    kept = []
    for pause in pauses:
        at = bisect_right(begins, pause.begin_ns) - 1
        if at >= 0 and pause.begin_ns < ends[at]:
            kept.append(replace(pause, begin_ns=pause.begin_ns - cuts[at], end_ns=pause.end_ns - cuts[at]))
    return kept


def _earlier(step: Step, ns: int) -> Step:
    return replace(
        step,
        begin_ns=step.begin_ns - ns,
        end_ns=step.end_ns - ns,
        collectives=tuple(_call_earlier(call, ns) for call in step.collectives),
        slept=tuple(Slept(each.at, each.begin_ns - ns, each.end_ns - ns) for each in step.slept),
    )


def _call_earlier(call: Collective, ns: int) -> Collective:
    return replace(
        call,
        called_ns=call.called_ns - ns,
        enter_ns=call.enter_ns - ns,
        awaited_ns=call.awaited_ns - ns,
        exit_ns=call.exit_ns - ns,
    )


def count_steps(steps: Mapping[int, list[Step]]) -> int:
    """How many different steps there are."""
    return len({step.step for own in steps.values() for step in own})


def extrapolate(result: RepeatResult, kept: int, train_ns: int | None) -> RepeatResult:
    """What was summed over the steps that were kept, as if over all."""
    result = msgspec.structs.replace(result, looked_at=kept)
    if train_ns is None:
        return result
    by = result.steps / kept
    culprit, guess, took_s = result.culprit, result.what_if_s, train_ns / S
    return msgspec.structs.replace(
        result,
        culprit=culprit and _scaled_culprit(culprit, by),
        what_if_s=guess and _scaled_what_if(guess, result.train_time_s / took_s),
        ranks=[_scaled_rank(rank, by) for rank in result.ranks],
    )


def _scaled_culprit(culprit: Culprit, by: float) -> Culprit:
    excess = culprit.excess_s
    return msgspec.structs.replace(
        culprit,
        wait_caused_s=culprit.wait_caused_s * by,
        excess_s=ConfidenceInterval(estimate=excess.estimate * by, low=excess.low * by, high=excess.high * by),
    )


def _scaled_what_if(guess: WhatIf, by: float) -> WhatIf:
    without = guess.without_culprit
    return WhatIf(
        without_culprit=None if without is None else without * by,
        without_skew=guess.without_skew * by,
    )


def _scaled_rank(rank: RankResult, by: float) -> RankResult:
    sums = ("wait_s", "transfer_s", "exposed_s", "wait_caused_s")
    counts = ("last_arrivals", "collectives", "bytes")
    told = {name: figure for name in (*sums, *counts) if (figure := getattr(rank, name)) is not None}
    return msgspec.structs.replace(
        rank,
        waited_for_s={whom: s * by for whom, s in rank.waited_for_s.items()},
        **{name: figure * by if name in sums else round(figure * by) for name, figure in told.items()},
    )
