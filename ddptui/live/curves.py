"""The curves of a finished trial: loss and step time, over steps or over seconds. Pure.

A launch may have any number of steps, so the points are thinned while messages arrive.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import NamedTuple

import msgspec

from ddptui.live.state import Curve, Point, across, mean_of
from ddptui.text.words import MS, S
from ddptui.wire.messages import Step

MOST_BUCKETS = 128  # a bucket of steps is one point of the chart
FEW_STEPS = 32  # with fewer steps than this, each step is a bucket
LEAST_BUCKET = 4  # steps per bucket otherwise, so that a single long step makes no spike
BLOCK = 32  # steps are kept or dropped in blocks: thinning single steps could drop every step that averages
MOST_STEPS = MOST_BUCKETS * BLOCK  # step times to keep at most


class StepLengths(msgspec.Struct):
    """Times of the measured steps of all ranks; in a long launch, only of every `stride`-th block of steps."""

    kept: dict[int, list[float]] = {}  # by step, one time per rank, in ms
    stride: int = 1
    last: int = 0  # number of the last step

    def add(self, step: Step) -> None:
        """Record a step's time if its block is kept."""
        self.last = max(self.last, step.step)
        if self._is_kept(step.step):
            self.kept.setdefault(step.step, []).append((step.end_ns - step.begin_ns) / MS)
            if len(self.kept) > MOST_STEPS:
                self.stride *= 2  # doubling: the remaining blocks are a subset of those already kept
                self.kept = {number: lengths for number, lengths in self.kept.items() if self._is_kept(number)}

    def _is_kept(self, number: int) -> bool:
        return number // BLOCK % self.stride == 0

    @property
    def bucket(self) -> int:
        """Steps per bucket: a power of two, so that buckets of different launches begin at the same steps."""
        size = 1 if self.last < FEW_STEPS else LEAST_BUCKET
        while self.last // size >= MOST_BUCKETS:
            size *= 2
        return size

    @property
    def medians(self) -> list[Point]:
        """For each bucket, its first step and the median time of its steps over all ranks, in ms."""
        size = self.bucket
        buckets: dict[int, list[float]] = {}
        for number, lengths in self.kept.items():
            buckets.setdefault(number - number % size, []).extend(lengths)
        return [(first, median(buckets[first])) for first in sorted(buckets)]


class LaunchCurves(msgspec.Struct):
    """The curves of one launch, collected from its ranks' steps."""

    losses: dict[int, Curve] = {}  # by rank
    ends_ns: dict[int, Curve] = {}  # by rank: when each step ended
    begin_ns: dict[int, int] = {}  # by rank: when the first step began
    lengths: StepLengths = msgspec.field(default_factory=StepLengths)

    def add(self, step: Step) -> None:
        """Add a step. Warm-up steps count for the loss, but not for step times."""
        rank = step.rank
        if rank not in self.losses:
            self.losses[rank], self.ends_ns[rank] = Curve(), Curve()
            self.begin_ns[rank] = step.begin_ns
        self.begin_ns[rank] = min(self.begin_ns[rank], step.begin_ns)  # steps may arrive out of order
        self.losses[rank].add(step.step, step.loss)
        self.ends_ns[rank].add(step.step, step.end_ns)
        if not step.warmup:
            self.lengths.add(step)

    @property
    def loss(self) -> list[Point]:
        """The loss at each step, as a mean over ranks."""
        return mean_of([*self.losses.values()])

    @property
    def seconds(self) -> list[Point]:
        """For each step, the seconds from a rank's first step to the end of this one, as a mean over ranks."""
        since = [
            [(step, (end_ns - self.begin_ns[rank]) / S) for step, end_ns in curve.points if end_ns is not None]
            for rank, curve in self.ends_ns.items()
        ]
        return across(since, fmean)


class TrialCurves(NamedTuple):
    """The curves of one trial by step: medians over its repeats, at the steps that all repeats have."""

    loss: Sequence[Point] = ()
    step_ms: Sequence[Point] = ()  # one point per bucket, at its first step
    seconds: Mapping[int, float] = {}  # step -> seconds since the first step began
    bucket: int = 1  # steps per bucket
    repeats: int = 0

    def over_seconds(self, points: Sequence[Point]) -> list[tuple[float, float | None]]:
        """The same points, with the second at which each step ended in place of the step."""
        return [(self.seconds[step], value) for step, value in points if step in self.seconds]


def of_repeats(launches: Sequence[LaunchCurves]) -> TrialCurves:
    """Combines the curves of a trial's launches; launches without a step are ignored."""
    launches = [launch for launch in launches if launch.losses]
    each = [(launch.loss, launch.lengths.medians, launch.seconds) for launch in launches] or [([], [], [])]
    loss, step_ms, seconds = (across(curves, median) for curves in zip(*each, strict=True))
    bucket = max((launch.lengths.bucket for launch in launches), default=1)
    return TrialCurves(loss, step_ms, {step: s for step, s in seconds if s is not None}, bucket, len(launches))
