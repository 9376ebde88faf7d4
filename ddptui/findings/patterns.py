"""Rules about patterns of lateness over the steps: pauses in a few steps, by turns or in bursts; uneven work; trends.
Pure.

A pause is a step in which a rank worked far longer in some part than it usually does, not counting the time in the
queue for a core. On a busy machine, most long steps that are no pauses are due to that queue.
"""

from collections import Counter
from collections.abc import Container, Iterator, Sequence
from itertools import pairwise
from statistics import fmean, linear_regression, median, pvariance
from typing import NamedTuple

import numpy as np

from ddptui.analysis.finding import Finding, Kind
from ddptui.analysis.late import Array, Window
from ddptui.analysis.places import lines_of_excess, lines_on_all_ranks, spots_of
from ddptui.analysis.policy import (
    ALIKE,
    ARE_ALIKE,
    BLOCKS,
    EXPLAINED,
    FEW_STEPS_SHARE,
    FEWEST_BURSTS,
    FEWEST_IN_BLOCK,
    FEWEST_QUEUED,
    FOLLOWS,
    GROWS,
    LONE_PAUSE_NS,
    NAMED_STEPS,
    PAUSE_NS,
    PAUSE_OF_STEP,
    PAUSE_OVER_NOISE,
    QUEUED_NS,
    REGULAR,
    REST_SHARE,
    SAME,
    TOGETHER,
    TURNS,
    WAITED_FOR,
)
from ddptui.text.tables import grouped
from ddptui.text.words import MS, S
from ddptui.wire.phases import BETWEEN, PARTS, PHASES

FORWARD, BACKWARD = PHASES.index("forward"), PHASES.index("backward")
CALMER = "Look at what the loop does between steps: logging, evaluation, checkpoints"
COLLECTIONS = "Look at what pauses a rank now and then: garbage collection (`gc.freeze()`), logging, checkpoints"
BATCHES_ALIKE = (
    "Give all ranks equal work in each step: sort samples by length, or fill batches up to a number of tokens"
)


class LongWork(NamedTuple):
    """A step in which a rank worked far longer than usual."""

    at: int  # index of the step in the window
    rank: int
    part: int  # index in PARTS
    ns: float  # excess over the usual time
    unqueued_ns: float  # the excess without time in the queue for a core


def every_so_many(numbers: Sequence[int]) -> int | None:
    """The period of these step numbers, if most of them are one period or a multiple apart. None if they are irregular,
    too few, or consecutive."""
    gaps = [after - before for before, after in pairwise(numbers)]
    if len(gaps) < FEWEST_BURSTS - 1:
        return None
    period, _ = Counter(gaps).most_common(1)[0]
    is_regular = sum(gap % period == 0 for gap in gaps) >= REGULAR * len(gaps) and gaps.count(period) >= len(gaps) / 2
    return period if period > 1 and is_regular else None


def pauses(window: Window) -> Iterator[Finding]:
    """Finds pauses: of all ranks at once, of several ranks by turns, or of one rank, regularly or in a few steps."""
    by_part = grouped((pause.part, pause) for pause in _pauses(window))
    everywhere: list[LongWork] = []
    findings: list[Finding] = []
    for part, found in by_part.items():
        per_step = Counter(pause.at for pause in found)
        yield from _long_steps(window, part, [pause for pause in found if per_step[pause.at] == len(window.ranks)])
        alone = [pause for pause in found if per_step[pause.at] < len(window.ranks)]
        everywhere += alone
        findings += _pauses_alone(window, PARTS[part], alone)
    by_turns = sum(finding.kind is Kind.BY_TURNS for finding in findings)
    if len(by_part) > 1 and (by_turns > 1 or not findings):  # garbage collection may happen in any part of a step
        findings = [*_pauses_alone(window, None, everywhere)] or findings
    yield from findings


def _pauses(window: Window) -> list[LongWork]:
    longer = window.work - np.median(window.work, axis=0)
    part, most = longer.argmax(axis=2), longer.max(axis=2)  # steps × ranks
    half_step_ns = PAUSE_OF_STEP * float(np.median(window.covered))
    unqueued = most - window.queued

    def beyond(lengths: Array, least_ns: float) -> set[LongWork]:
        noise = float(np.quantile(np.maximum(0.0, lengths), 0.9))
        places = np.argwhere(lengths >= max(least_ns, half_step_ns, PAUSE_OVER_NOISE * noise)).tolist()
        return {
            LongWork(at, window.ranks[of], int(part[at, of]), float(most[at, of]), float(unqueued[at, of]))
            for at, of in places
        }

    found, long = beyond(unqueued, PAUSE_NS), sorted(beyond(most, QUEUED_NS))
    for key in {(pause.rank, pause.part) for pause in long}:
        found |= _queued_alike([pause for pause in long if (pause.rank, pause.part) == key], found)
    return sorted(found)


def _queued_alike(found: Sequence[LongWork], sure: Container[LongWork]) -> set[LongWork]:
    """Long pauses of a rank in one part of the step that include time in the queue, e.g. an evaluation beside busy
    programs. They count if several of them are pauses without the queue as well, or if they are nearly equally long,
    unlike pauses that the queue alone causes."""
    lengths = [pause.ns for pause in found]
    as_long = len(found) >= FEWEST_QUEUED and max(lengths) <= SAME * min(lengths)
    return {*found} if as_long or sum(pause in sure for pause in found) > 1 else set()


def _long_steps(window: Window, part: int, found: Sequence[LongWork]) -> Iterator[Finding]:
    lost_ns = sum(pause.ns for pause in found) / len(window.ranks)
    at = sorted({pause.at for pause in found})
    is_lone = len(at) == 1 and lost_ns < LONE_PAUSE_NS
    if is_lone or lost_ns < REST_SHARE * window.covered_ns:
        return
    numbers = {"share": lost_ns / window.covered_ns, "longer_s": lost_ns / S, "times": float(len(at))}
    numbers["ranks"] = float(len(window.ranks))
    lines = lines_on_all_ranks(spots_of([window.steps[index] for index in at], window.lines), part, len(at))
    named = _named(window, at)
    yield Finding(kind=Kind.LONG_STEPS, phase=PARTS[part], steps=named, lines=lines, numbers=numbers)


def _named(window: Window, at: Sequence[int]) -> tuple[int, ...]:
    return tuple(window.steps[index].number for index in at[:NAMED_STEPS])


def _pauses_alone(window: Window, part: str | None, found: Sequence[LongWork]) -> Iterator[Finding]:
    """Finds pauses of single ranks that other ranks waited for. part: the part of the step; None: several."""
    if not found or not window.waits_are_known:
        return
    typical_ns = _typical([pause.ns for pause in found])
    alike = [pause for pause in found if typical_ns / ALIKE <= pause.ns <= typical_ns * ALIKE]
    if sum(pause.ns for pause in alike) < ARE_ALIKE * sum(pause.ns for pause in found):
        return
    sums = {rank: sum(pause.ns for pause in alike if pause.rank == rank) for rank in window.ranks}
    late = [rank for rank in window.ranks if sums[rank] >= TURNS * max(sums.values())]
    alike = [pause for pause in alike if pause.rank in late]
    waited_ns = float(sum(window.caused[pause.at, window.ranks.index(pause.rank)] for pause in alike))
    waited_ns /= len(window.ranks) - 1
    is_lone = len(alike) == 1 and typical_ns < LONE_PAUSE_NS
    is_hidden = waited_ns < WAITED_FOR * sum(sums[rank] for rank in late)
    if is_lone or is_hidden or waited_ns < FEW_STEPS_SHARE * window.covered_ns:
        return
    numbers = {"share": waited_ns / window.covered_ns, "waited_s": waited_ns / S, "times": float(len(alike))}
    numbers["pause_ms"] = median(pause.ns for pause in alike) / MS
    if len(late) == 1:
        yield _of_one_rank(window, part, alike, numbers)
        return
    by_rank = Counter(pause.rank for pause in alike)
    numbers |= {f"rank_{rank}_times": float(by_rank[rank]) for rank in late}
    yield Finding(kind=Kind.BY_TURNS, phase=part, numbers=numbers, action=COLLECTIONS)


def _of_one_rank(window: Window, part: str | None, found: Sequence[LongWork], numbers: dict[str, float]) -> Finding:
    rank, at = found[0].rank, sorted(pause.at for pause in found)
    every = every_so_many([window.steps[index].number for index in at])
    numbers |= {"waiting_rank": float(sum(window.ranks) - rank)} if len(window.ranks) == 2 else {}
    numbers |= {"every_steps": float(every)} if every else {}
    lost = {each: sum(pause.ns for pause in found if pause.part == each) for each in {pause.part for pause in found}}
    lines = lines_of_excess(spots_of([window.steps[index] for index in at], window.lines), rank, lost, len(at))
    return Finding(
        kind=Kind.BURSTS if every else Kind.RARE_WAITS,
        severity="warning",
        rank=rank,
        phase=part,
        place=lines[0].place if lines else None,
        lines=lines,
        steps=_named(window, at),
        numbers=numbers,
        action=CALMER if part == BETWEEN else None,
    )


def _typical(lengths: Sequence[float]) -> float:
    """The length such that longer ones make up half of the total time, so that short noise does not hide a few long
    pauses."""
    passed, half = 0.0, sum(lengths) / 2
    for length in sorted(lengths):
        passed += length
        if passed >= half:
            return length
    return 0.0


def uneven_work(window: Window) -> Iterator[Finding]:
    """Finds uneven batches: forward and backward of each rank are long in the same steps, and each rank is last by
    turns. This tells differing batches from a noisy machine."""
    if not window.waits_are_known:
        return
    steps, ranks = len(window.steps), len(window.ranks)
    if not all(_differs_by_batch(window.work[:, at]) for at in range(ranks)):
        return
    covered = np.maximum(1, window.covered.sum(axis=0))
    queued = np.minimum(1.0, window.queued.sum(axis=0) / covered)  # part of the time in which a rank had no core
    both = (window.work[:, :, FORWARD] + window.work[:, :, BACKWARD]) * (1 - queued)
    saved_ns = float((both.max(axis=1) - both.mean(axis=1)).sum())
    last = np.bincount(both.argmax(axis=1), minlength=ranks)
    share = saved_ns / window.covered_ns
    if share >= REST_SHARE and last.min() >= steps / ranks / 2:
        numbers = {"share": share, "saved_s": saved_ns / S, "times": float(steps)}
        yield Finding(
            kind=Kind.UNEVEN_WORK, severity="warning", phase="backward", numbers=numbers, action=BATCHES_ALIKE
        )


def _differs_by_batch(work: Array) -> bool:
    """Whether backward is long in the steps with a long forward, and steps do not resemble the previous ones. work: a
    rank's, steps × parts."""
    forward, backward = np.log1p(work[:, FORWARD]), np.log1p(work[:, BACKWARD])
    if min(np.ptp(forward[:-1]), np.ptp(forward[1:]), np.ptp(backward)) == 0:
        return False
    by_forward = work[np.argsort(forward, kind="stable"), BACKWARD]
    quarter = len(by_forward) // 4
    times = np.median(by_forward[-quarter:]) / (np.median(by_forward[:quarter]) or 1)
    together = np.corrcoef(forward, backward)[0, 1]
    is_clear = any(together >= enough and times >= longer for enough, longer in TOGETHER)
    return bool(is_clear and np.corrcoef(forward[:-1], forward[1:])[0, 1] <= FOLLOWS)


def trends(window: Window) -> Iterator[Finding]:
    """Finds a rank that becomes later during the run, or is late from some step on."""
    if len(window.steps) < BLOCKS * FEWEST_IN_BLOCK or not window.waits_are_known:
        return
    work = window.work.sum(axis=2) - window.queued  # steps × ranks
    for at, rank in enumerate(window.ranks):
        late = work[:, at] - np.median(np.delete(work, at, axis=1), axis=1)
        yield from _trend(window, rank, late.tolist())


def _trend(window: Window, rank: int, late: Sequence[float]) -> Iterator[Finding]:
    size = len(late) / BLOCKS
    blocks = [median(late[round(size * block) : round(size * (block + 1))]) for block in range(BLOCKS)]
    growth, variance = blocks[-1] - blocks[0], pvariance(blocks)
    share = fmean(blocks) * len(late) / window.covered_ns
    if growth < GROWS * np.median(window.covered) or share < REST_SHARE:
        return
    line = linear_regression(range(BLOCKS), blocks)
    of_line = fmean((blocks[at] - line.slope * at - line.intercept) ** 2 for at in range(BLOCKS))
    of_jump, at = min((_jump(blocks, at), at) for at in range(2, BLOCKS - 1))
    if min(of_line, of_jump) > (1 - EXPLAINED) * variance:
        return
    numbers = {"from_ms": blocks[0] / MS, "to_ms": blocks[-1] / MS, "share": share}
    steps = (
        (window.steps[_begin_of_jump(late, round(size * (at - 1)), round(size * (at + 1)))].number,)
        if of_jump < of_line
        else ()
    )
    yield Finding(kind=Kind.TREND, severity="warning", rank=rank, steps=steps, numbers=numbers)


def _jump(blocks: Sequence[float], at: int) -> float:
    """The variance that remains around two levels, before and from block `at` on."""
    return (pvariance(blocks[:at]) * at + pvariance(blocks[at:]) * (len(blocks) - at)) / len(blocks)


def _begin_of_jump(late: Sequence[float], first: int, last: int) -> int:
    """The index, between these two, of the step at which lateness jumps from the level before to the level after."""
    middle = (median(late[:first] or late[:1]) + median(late[last:])) / 2
    return max(
        range(first, last),
        key=lambda at: sum(ns < middle for ns in late[first:at]) + sum(ns >= middle for ns in late[at:last]),
    )
