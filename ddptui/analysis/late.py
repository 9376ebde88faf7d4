"""The window of steps that rules look at, and whether one rank is late in it: tests, lost time, and the time without
it. Pure.

If all ranks were alike, each might have caused any of the waits. So the waits of each block of steps are assigned to
the ranks at random, many times (a permutation test: Fisher, "The Design of Experiments", 1935). A rank is named if
hardly any assignment gives one rank as much waiting. Ranks that pause by turns are not named, be they two or eight. The
loss of the named rank is measured against the median of the others in the same steps, for each part of its work. Its
interval comes from the same blocks (batch means: Law, "Simulation Modeling and Analysis", 9.5.3), widened by the usual
differences between cores.

To tell more work from a slower core, look at shares and not at seconds: a rank that works longer also queues longer for
a core. Its thread's state is further evidence: on a core, in the queue for one, or neither, e.g. asleep or waiting for
a file.

The time without the late rank comes from a replay, in which a rank's own work takes a given time. An operation ends on
a rank when all needed ranks have entered it and the measured transfer time has passed. With the measured work, this
reproduces the measured time, except if a rank was stopped within an operation: then the others wait for it at their
next operation instead.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import hypot, sqrt
from random import Random
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ddptui.analysis.culprit import WaitAnalysis, WaitUncertainty, exceeds_waits, wait_uncertainty
from ddptui.analysis.heartbeats import Loaders
from ddptui.analysis.operations import OperationKey
from ddptui.analysis.places import Spot, spots_of
from ddptui.analysis.policy import (
    A_LARGE_PART,
    BLOCKS_OF_WAITS,
    COLD,
    COLD_NS,
    FEWEST_BLOCKS,
    FEWEST_UNQUEUED,
    HARDLY_CPU,
    IN_ALL_PARTS,
    MOST_SHUFFLED,
    MOSTLY_CPU,
    PART_OF_LOSS,
    QUEUES_MORE,
    SAME_LIMIT,
    SHUFFLES,
    STEADILY,
    SYSTEMATIC,
    SYSTEMATIC_BESIDE_TRANSFERS,
)
from ddptui.analysis.results import WhatIf
from ddptui.analysis.waits import AlignedStep, caused_by_step
from ddptui.text.words import S
from ddptui.wire.messages import GATHER_OUTPUTS, Line
from ddptui.wire.phases import PARTS

Array = NDArray[np.float64]  # axes: steps, ranks, parts of own work; in ns


@dataclass(frozen=True)
class Window:
    """Aligned steps of all ranks, in order; some steps may be missing. Arrays are computed once, when asked for."""

    steps: Sequence[AlignedStep]
    disturbed: bool = False  # other programs kept cores busy
    restarts: Mapping[int, str] = field(default_factory=dict)  # last step before a restart -> why the ranks ended
    watched: bool = False  # the user's own training: advice must not refer to trials of the lab
    lines: Mapping[int, Line] = field(default_factory=dict)  # as in AlignedSteps
    loaders: Mapping[int, Loaders] = field(default_factory=dict)  # likewise

    @cached_property
    def ranks(self) -> list[int]:
        """The ranks, in order: the second axis of the arrays."""
        return sorted(self.steps[0].ranks) if self.steps else []

    @cached_property
    def work(self) -> Array:
        """Own work, steps × ranks × parts."""
        return np.array([[step.ranks[rank].work_ns for rank in self.ranks] for step in self.steps], dtype=np.float64)

    @cached_property
    def queued(self) -> Array:
        """Time in the queue for a core, steps × ranks."""
        return self._of_steps("queued_ns")

    @cached_property
    def cpu(self) -> Array:
        """CPU time of the training's thread, steps × ranks."""
        return self._of_steps("cpu_ns")

    @cached_property
    def covered(self) -> Array:
        """The time of each step, plus the time since the previous step if that one is in the window; steps × ranks."""
        begin, end = self._of_steps("begin_ns"), self._of_steps("end_ns")
        follows = np.diff([step.number for step in self.steps]) == 1
        begin[1:] = np.where(follows[:, None], end[:-1], begin[1:])
        return end - begin

    @cached_property
    def covered_ns(self) -> float:
        """The time that the window covers, to which shares refer; mean over ranks, at least 1."""
        return float(self.covered.sum(axis=0).mean()) or 1.0

    @cached_property
    def caused(self) -> Array:
        """How long all others together waited for each rank's own work, steps × ranks."""
        by_step = caused_by_step(self.steps)
        return np.array([[of_step[rank] for rank in self.ranks] for of_step in by_step], dtype=np.float64)

    @cached_property
    def spots(self) -> list[Spot]:
        """Where in the user's code the ranks worked."""
        return spots_of(self.steps, self.lines)

    @cached_property
    def uncertainty(self) -> WaitUncertainty | None:
        """The uncertainty of the waits; None: all ranks share one clock."""
        return wait_uncertainty(self.steps)

    @cached_property
    def withheld(self) -> bool:
        """Whether waits are unknown: times are host times, or the clock error exceeds the waits."""
        uncertainty = self.uncertainty
        return self.steps[0].host_time or (uncertainty is not None and exceeds_waits(self.steps, uncertainty))

    @property
    def waits_are_known(self) -> bool:
        """Whether waits are known, and there are several ranks."""
        return len(self.ranks) > 1 and not self.withheld

    @property
    def are_replicas(self) -> bool:
        """Whether the ranks are replicas of one process, whose outputs nn.DataParallel gathers."""
        return any(call.kind == GATHER_OUTPUTS for own in self.steps[0].ranks.values() for call in own.step.collectives)

    def _of_steps(self, field: str) -> Array:
        steps = [[getattr(step.ranks[rank].step, field) for rank in self.ranks] for step in self.steps]
        return np.array(steps, dtype=np.float64)


AROUND = 4  # neighboring steps on either side
# Student's t for 95 %, by the number of blocks (degrees of freedom: blocks - 1).
STUDENT = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36, 9: 2.31, 10: 2.26, 11: 2.23, 12: 2.20}
DATA, BACKWARD = PARTS.index("data"), PARTS.index("backward")
Entered = dict[tuple[int, OperationKey], dict[int, float]]  # by step and operation: entry time of each rank, in ns


def chance_of_waits(caused: Array, least_ns: float) -> float:
    """The p-value of the largest amount of waiting that one rank caused, if all ranks were alike. caused: steps ×
    ranks, in ns. least_ns: per step; a rank that causes less in most blocks only has a slightly slower core, so that
    amount is not counted."""
    blocks = np.array([block.mean(axis=0) for block in _blocks(caused)])
    typical = np.median(blocks, axis=0)
    little = np.where(typical >= least_ns, least_ns / 2, np.maximum(least_ns / 2, typical))
    by_block = np.maximum(0.0, blocks - little).tolist()
    ranks = len(by_block[0])
    if len(by_block) < FEWEST_BLOCKS or ranks < 2:
        return 1.0
    shuffles = max(199, min(SHUFFLES, MOST_SHUFFLED // (len(by_block) * ranks)))
    seen, as_much, random = max(map(sum, zip(*by_block, strict=True))), 0, Random(0)  # fixed seed: replays agree
    for _ in range(shuffles):
        for block in by_block:
            random.shuffle(block)
        as_much += max(map(sum, zip(*by_block, strict=True))) >= seen
        if as_much > shuffles // 10:  # not significant (Besag and Clifford, "Sequential Monte Carlo p-values", 1991)
            break
    return (1 + as_much) / (1 + shuffles)


def _blocks(steps: Array) -> list[Array]:
    """Splits the steps into blocks of neighboring steps, of nearly equal size."""
    blocks = min(BLOCKS_OF_WAITS, len(steps))
    return np.split(steps, [at * len(steps) // blocks for at in range(1, blocks)])


class Excess(NamedTuple):
    """How much longer than the others a rank worked, in ns over all steps."""

    estimate: float
    half: float  # half the width of the 95 % interval
    lost: list[tuple[int, float]]  # parts of own work in which time was lost, with the loss in ns; largest first
    slower: float | None  # the factor, if the rank took longer in all parts alike
    is_steady: bool  # the rank took longer throughout the steps, in one part of its work
    worked: float  # lower bound of the estimate's part outside the queue for a core
    queued: float  # how much longer the rank queued for a core than with the others' share of queueing
    cpu: float | None  # factor of its CPU time over the others', if CPU time explains most of the loss
    blocked: float | None  # part of the loss neither on a core nor in the queue for one, if that is most of it


def excess_of_rank(window: Window, rank: int, least_ns: float = 0.0) -> Excess:
    """The excess of a rank over the others (at least one). A steady loss must exceed least_ns per step."""
    at, steps = window.ranks.index(rank), len(window.steps)
    others = np.delete(window.work, at, axis=1)
    others_median = np.median(others, axis=1)  # steps × parts
    longer = window.work[:, at] - others_median
    losses, typical, scatter = longer.sum(axis=0), others_median.sum(axis=0), _scatter(others[:, 0])
    halves = np.array([_half_interval(longer[:, part], scatter[:, part]) for part in range(len(PARTS))])
    steady = [
        part
        for part in range(len(PARTS))
        if _is_steady(longer[:, part], max(least_ns, STEADILY * typical[part] / steps))
    ]
    worst = max(steady or range(len(PARTS)), key=lambda part: losses[part])
    slower = _slower_everywhere(losses, typical)
    least = PART_OF_LOSS * np.maximum(0.0, losses).sum()  # parts in which the rank was faster do not offset losses
    limits = np.zeros(len(PARTS)) if slower else np.maximum(least, np.maximum(halves, SYSTEMATIC * typical))
    lost = [part for part in range(len(PARTS)) if part == worst or losses[part] > limits[part]]
    estimate, in_lost = float(losses[lost].sum()), longer[:, lost].sum(axis=1)
    calls = [call for step in window.steps for call in step.ranks[rank].step.collectives]
    beside = any(call.awaited_ns > call.enter_ns for call in calls) and BACKWARD in lost
    longer_queued = _beyond_others(window.queued.sum(axis=0), at)
    half = hypot(  # independent errors
        _half_interval(in_lost, scatter[:, lost].sum(axis=1)),
        (SYSTEMATIC_BESIDE_TRANSFERS if beside else SYSTEMATIC) * typical[lost].sum(),
        longer_queued,
        COLD * estimate,
        COLD_NS * steps,
    )
    worked = max(estimate - max(0.0, longer_queued), _lost_without_queue(window, at, in_lost))
    cpu = window.cpu.sum(axis=0)
    longer_cpu = _beyond_others(cpu, at)
    factor = float(cpu[at] / (cpu[at] - longer_cpu)) if cpu[at] > longer_cpu >= MOSTLY_CPU * estimate else None
    ready = (max(0.0, longer_cpu) + max(0.0, longer_queued)) / estimate if estimate > 0 else 1.0
    return Excess(
        estimate=estimate,
        half=half,
        lost=sorted(((part, float(losses[part])) for part in lost), key=lambda item: -item[1]),
        slower=slower,
        is_steady=bool(steady),
        worked=worked,
        queued=_queued_beyond_others(window, at),
        cpu=factor,
        blocked=1 - ready if cpu.min() > 0 and ready <= HARDLY_CPU else None,
    )


def _beyond_others(by_rank: Array, at: int) -> float:
    """By how much a rank's figure exceeds the median of the others'."""
    return float(by_rank[at] - np.median(np.delete(by_rank, at)))


def _lost_without_queue(window: Window, at: int, losses: Array) -> float:
    """The loss over all steps, in ns, extrapolated from the median of the steps in which the rank queued no longer than
    the others; 0 if there are few such steps."""
    queued = window.queued
    unqueued = losses[queued[:, at] <= np.median(np.delete(queued, at, axis=1), axis=1)]
    return float(np.median(unqueued)) * len(losses) if len(unqueued) >= FEWEST_UNQUEUED else 0.0


def _is_steady(losses: Array, least: float) -> bool:
    """Whether the rank took longer throughout: the median loss exceeds `least` in all blocks but one."""
    medians = sorted(float(np.median(block)) for block in _blocks(losses))
    return len(medians) == BLOCKS_OF_WAITS and medians[1] > least


def _queued_beyond_others(window: Window, at: int) -> float:
    """How much longer the rank queued for a core than it would have with the others' share of queueing, in ns. 0 if the
    shares are similar: a rank with more work also queues longer."""
    slept = [
        [sum(delay.end_ns - delay.begin_ns for delay in step.ranks[rank].step.slept) for rank in window.ranks]
        for step in window.steps
    ]
    queued = window.queued.sum(axis=0)
    shares = queued / np.maximum(1, window.work.sum(axis=(0, 2)) - np.sum(slept, axis=0))
    more = _beyond_others(shares, at)
    return float(queued[at] * more / shares[at]) if more >= QUEUES_MORE else 0.0


def _slower_everywhere(losses: Array, typical: Array) -> float | None:
    """The factor by which the rank took longer, if it is similar in all large parts of its work; otherwise None."""
    large = typical > A_LARGE_PART * typical.sum()
    slower = float(losses.sum() / max(typical.sum(), 1))
    return 1 + slower if large.sum() > 1 and (losses[large] / typical[large]).min() > IN_ALL_PARTS * slower else None


def _half_interval(losses: Array, scatter: Array) -> float:
    """Half the width of the 95 % interval of the losses summed over all steps. scatter: another rank's variation."""
    # If only a few steps are late, the losses scatter by their lateness itself, so use the other rank's scatter.
    late_in_most = np.median(losses) > losses.mean() / 2
    means = [block.mean() for block in _blocks(losses if late_in_most else scatter)]
    if len(means) < 2:
        return abs(float(losses.sum()))
    factor = 1 if late_in_most else 2  # both ranks scatter
    return STUDENT[len(means)] * sqrt(factor * np.var(means, ddof=1) / len(means)) * len(losses)


def _scatter(works: Array) -> Array:
    """How much a rank's work differs from the median of the steps around; steps × parts."""
    around = [np.median(works[max(0, at - AROUND) : at + AROUND + 1], axis=0) for at in range(len(works))]
    return works - np.array(around)


def replayed_ns(steps: Sequence[AlignedStep], work: Array) -> float:
    """Replays the steps with the given work, which is like Window.work. Returns the time from the start of the first
    step to the end of the slowest rank, in ns.

    Raises AssertionError if ranks wait for each other in a cycle, which no true record contains.
    """
    if not steps:
        return 0.0
    entered: Entered = {}
    ends_ns: list[float] = []
    by_rank = dict(zip(sorted(steps[0].ranks), work.swapaxes(0, 1).tolist(), strict=True))
    running = [_replay(rank, steps, wanted, entered, ends_ns) for rank, wanted in by_rank.items()]
    while running:
        went_on = [next(replay, None) for replay in running]  # None: the rank has finished its steps
        if all(moved is False for moved in went_on):
            raise AssertionError("ranks wait for each other in a cycle")
        running = [replay for replay, moved in zip(running, went_on, strict=True) if moved is not None]
    return max(ends_ns) - min(step.step.begin_ns for step in steps[0].ranks.values())


def _replay(
    rank: int, steps: Sequence[AlignedStep], work: list[list[float]], entered: Entered, ends_ns: list[float]
) -> Iterator[bool]:
    """Replays a rank's steps, and records when it enters operations and when it ends. While an operation lacks another
    rank, yields whether this rank has made progress since the last yield."""
    moment = float(steps[0].ranks[rank].step.begin_ns)
    for step, wanted in zip(steps, work, strict=True):
        rank_step = step.ranks[rank]
        measured = rank_step.work_ns
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
    """The train time if the culprit had taken the median of the others in each step and part of its work, and if, in
    addition, all ranks had taken the mean.

    The estimate tends to be too short: while the culprit sleeps, the others have caches and memory bandwidth to
    themselves. With short steps it tends to be too long: ranks that waited start each step with cold caches.
    `benchmarks/what_if.py` measures both.
    """
    window, measured_s = Window(analysis.aligned.steps), analysis.train_ns / S
    # The replay of the measured work may miss the measured time slightly, so use only ratios of replays.
    scale = measured_s / replayed_ns(window.steps, window.work)
    work, without = window.work, None
    if (culprit := analysis.culprit) is not None:
        at = window.ranks.index(culprit.rank)
        others = np.delete(work, at, axis=1)
        # If all ranks meet the same limit, e.g. slow loaders, nothing would be gained without the culprit.
        fetching_ns = others[:, :, DATA].sum(axis=0).mean()
        if culprit.phase != PARTS[DATA] or fetching_ns <= SAME_LIMIT * analysis.covered_ns:
            work = work.copy()
            work[:, at] = np.median(others, axis=1)
            without = min(measured_s, replayed_ns(window.steps, work) * scale)
    alike = np.broadcast_to(work.mean(axis=1, keepdims=True), work.shape)
    most = measured_s if without is None else without
    return WhatIf(without_culprit=without, without_skew=min(most, replayed_ns(window.steps, alike) * scale))
