"""The curves of a trial that has ended: its loss and the length of its steps, over steps or over seconds. Pure.

A launch may have any number of steps: the points are thinned as its messages come.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import NamedTuple

import msgspec

from ddptui.live.state import MOST_POINTS, Curve, Point, across, mean_of
from ddptui.text.units import MS, S
from ddptui.wire.messages import Step

MOST_BUCKETS = 128  # of steps, each a point of the chart
FEW_STEPS = 32  # of which each is a bucket
LEAST_BUCKET = 4  # steps: so that a single long one is no spike
BLOCK = 32  # steps that are kept together: what comes every few steps, as an average, is not left out with them
MOST_STEPS = MOST_BUCKETS * BLOCK  # whose lengths are kept


class StepLengths(msgspec.Struct):
    """How long the measured steps of all ranks took; of a long launch, of every `stride`-th block of steps."""

    kept: dict[int, list[float]] = {}  # by step, in ms, a length a rank
    stride: int = 1
    last: int = 0  # the last step

    def add(self, step: Step) -> None:
        """Note the length of a step, if its block is kept."""
        self.last = max(self.last, step.step)
        if self._is_kept(step.step):
            self.kept.setdefault(step.step, []).append((step.end_ns - step.begin_ns) / MS)
            if len(self.kept) > MOST_STEPS:
                self.stride *= 2  # a subset of the blocks that are kept already
                self.kept = {number: lengths for number, lengths in self.kept.items() if self._is_kept(number)}

    def _is_kept(self, number: int) -> bool:
        return number // BLOCK % self.stride == 0

    @property
    def bucket(self) -> int:
        """How many steps a bucket has: a power of two, so that those of other launches begin at the same steps."""
        size = 1 if self.last < FEW_STEPS else LEAST_BUCKET
        while self.last // size >= MOST_BUCKETS:
            size *= 2
        return size

    @property
    def medians(self) -> list[Point]:
        """By the first step of each bucket, the median length of its steps on all ranks, in ms."""
        size = self.bucket
        buckets: dict[int, list[float]] = {}
        for number, lengths in self.kept.items():
            buckets.setdefault(number - number % size, []).extend(lengths)
        return [(first, median(buckets[first])) for first in sorted(buckets)]


class LaunchCurves(msgspec.Struct):
    """The curves of one launch, from the steps of its ranks."""

    losses: dict[int, Curve] = {}  # by rank, as the next two
    ends_ns: dict[int, Curve] = {}
    begin_ns: dict[int, int] = {}  # of the first step
    lengths: StepLengths = msgspec.field(default_factory=StepLengths)
    most: int = MOST_POINTS

    def add(self, step: Step) -> None:
        """Take a step. Warm-up steps are in the loss, and in no length."""
        rank = step.rank
        if rank not in self.losses:
            self.losses[rank], self.ends_ns[rank] = Curve(most=self.most), Curve(most=self.most)
            self.begin_ns[rank] = step.begin_ns
        self.begin_ns[rank] = min(self.begin_ns[rank], step.begin_ns)  # steps need not come in order
        self.losses[rank].add(step.step, step.loss)
        self.ends_ns[rank].add(step.step, step.end_ns)
        if not step.warmup:
            self.lengths.add(step)

    @property
    def loss(self) -> list[Point]:
        """The loss of each step, the mean over ranks."""
        return mean_of([*self.losses.values()])

    @property
    def seconds(self) -> list[Point]:
        """By step, how long after the begin of its first step a rank had ended it, the mean over ranks."""
        since = [
            [(step, (end_ns - self.begin_ns[rank]) / S) for step, end_ns in curve.points if end_ns is not None]
            for rank, curve in self.ends_ns.items()
        ]
        return across(since, fmean)


class TrialCurves(NamedTuple):
    """The curves of one trial by step; of several repeats, the median at the steps that all have."""

    loss: Sequence[Point] = ()
    step_ms: Sequence[Point] = ()  # by the first step of a bucket
    seconds: Mapping[int, float] = {}  # since the first step began, by step
    bucket: int = 1  # steps
    repeats: int = 0

    def over_seconds(self, points: Sequence[Point]) -> list[tuple[float, float | None]]:
        """The same points by the seconds at which their steps ended."""
        return [(self.seconds[step], value) for step, value in points if step in self.seconds]


def of_repeats(launches: Sequence[LaunchCurves]) -> TrialCurves:
    """The curves of a trial from those of its launches; a launch without a step counts for nothing."""
    launches = [launch for launch in launches if launch.losses]
    each = [(launch.loss, launch.lengths.medians, launch.seconds) for launch in launches] or [([], [], [])]
    loss, step_ms, seconds = (across(curves, median) for curves in zip(*each, strict=True))
    bucket = max((launch.lengths.bucket for launch in launches), default=1)
    return TrialCurves(loss, step_ms, {step: s for step, s in seconds if s is not None}, bucket, len(launches))
