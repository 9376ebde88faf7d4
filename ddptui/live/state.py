"""The state of a run right now, as its messages give it (see fold.py).

Times are by the console's clock; those of ranks on other hosts are as exact as the clocks are known by then. Steps and
pauses keep the times of their rank: RunMonitor brings them to one clock together.
"""

from collections import deque
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import NamedTuple, TypeVar

import msgspec

from ddptui.analysis.clock_sync import Clocks
from ddptui.analysis.figures import mean_by_sample
from ddptui.config.trial import Bottleneck
from ddptui.wire.messages import Gpu, Pause, Position, Step
from ddptui.wire.records import Load, Refused

Item = TypeVar("Item")

MOST_RECENT = 200  # steps that are kept of a rank
RECENT_NS = 2e9  # the judgement is of the last two seconds
MOST_PAUSES = 100
MOST_POINTS = 512  # of a curve: more than a terminal has columns of dots

Point = tuple[int, float | None]  # None: it was not finite


class Curve(msgspec.Struct):
    """A figure over the steps of a training that may be long: a bounded number of points."""

    points: list[Point] = []
    most: int = MOST_POINTS
    stride: int = 1  # doubled when it is full: every other point goes, and only every other one is added

    def add(self, step: int, value: float | None) -> None:
        """Add the value of a step; it is kept if the step is a multiple of the stride."""
        if step % self.stride:
            return
        self.points.append((step, value))
        if len(self.points) > self.most:
            self.stride *= 2
            self.points = [point for point in self.points if point[0] % self.stride == 0]


def mean_of(curves: Sequence[Curve]) -> list[Point]:
    """The mean of several curves at the steps that all have; None where one of them is not finite."""
    return across([curve.points for curve in curves], fmean)


def across(several: Sequence[Sequence[Point]], middle: Callable[[Sequence[float]], float]) -> list[Point]:
    """The middle of several curves at the steps that all have; None where one of them is not finite."""
    tables = [dict(points) for points in several]
    steps = sorted(set.intersection(*map(set, tables))) if tables else []
    finite = [(step, [value for table in tables if (value := table[step]) is not None]) for step in steps]
    return [(step, middle(values) if len(values) == len(tables) else None) for step, values in finite]


class StepEnd(NamedTuple):
    """When a rank finished a step, and how many samples it had."""

    at_ns: int
    step: int
    samples: int


class RankState(msgspec.Struct):
    """What is known of one rank of the current launch."""

    rank: int
    pid: int
    device: str
    state: str = "starting"  # starting, running, done, failed
    step: int = 0  # finished steps
    steps: int | None = None
    loss: float | None = None
    samples: int = 0  # of the last step
    phases_ns: tuple[int, ...] = ()
    ends: list[StepEnd] = msgspec.field(default_factory=list)  # of the last steps that it reported
    flops: float | None = None  # operations of one sample; None: not counted
    losses: Curve = msgspec.field(default_factory=Curve)
    heard_ns: int = 0  # when it last beat, or finished a step
    recent: deque[Step] = msgspec.field(default_factory=lambda: deque(maxlen=MOST_RECENT))  # warm-up left out
    cpu_percent: float | None = None
    rss_bytes: int | None = None
    gpu_bytes: int | None = None  # of its own tensors
    gpu_reserved_bytes: int | None = None  # held by torch for them, used or not
    gpu: Gpu = Gpu()  # load, memory, power and clock of its GPU, by all processes
    dropped: int = 0
    position: Position = Position()  # at its last beat
    error: str | None = None

    @property
    def steps_per_s(self) -> float | None:
        """How many steps it reports a second: `watch --every N` has one in N reported."""
        if len(self.ends) < 2 or self.ends[-1].at_ns == self.ends[0].at_ns:
            return None
        return (len(self.ends) - 1) / (self.ends[-1].at_ns - self.ends[0].at_ns) * 1e9

    @property
    def samples_per_s(self) -> float | None:
        """Over its last steps; steps that it did not report count like the others. None: not known, or not counted."""
        if (reports_per_s := self.steps_per_s) is None:
            return None
        steps_a_report = (self.ends[-1].step - self.ends[0].step) / (len(self.ends) - 1)
        return reports_per_s * steps_a_report * fmean(end.samples for end in self.ends[1:]) or None

    @property
    def of_epoch(self) -> float | None:
        """The part of a pass over its data that it has fetched, where that is watched; None: not known."""
        position = self.position
        return min(1.0, position.batch / position.batches) if position.batches else None


class Live(msgspec.Struct):
    """The state of a run."""

    trial: str | None = None
    repeat: int = 0
    status: str = "idle"  # idle, running, ok, failed, interrupted, skipped
    error: str | None = None
    finished: int = 0  # launches that have ended
    resumed: int = 0  # those of them that the run had when it was resumed
    began_ns: int | None = None  # the first launch
    launched_ns: int = 0  # the current one
    over: dict[str, int] = msgspec.field(default_factory=dict)  # trials that ended early: after how many launches
    failures: dict[str, str] = msgspec.field(default_factory=dict)  # by trial, in a line
    injected: tuple[Bottleneck, ...] | None = None  # by hand, in place of the trial's own
    changed_ns: int = 0  # when delays were changed by hand last; 0: in this launch they were not
    ranks: dict[int, RankState] = msgspec.field(default_factory=dict)
    load: Load | None = None
    refused: Refused | None = None  # of the current launch
    notice: str = ""  # what it waits for, while no rank is here
    called: str | None = None  # the primitive that was called last, and its size
    pauses: deque[Pause] = msgspec.field(default_factory=lambda: deque(maxlen=MOST_PAUSES))
    clocks: Clocks = msgspec.field(default_factory=Clocks)

    @property
    def step(self) -> int:
        """Steps that all ranks have finished."""
        return min((rank.step for rank in self.ranks.values()), default=0)

    @property
    def steps(self) -> int | None:
        return next((rank.steps for rank in self.ranks.values() if rank.steps), None)

    @property
    def epoch(self) -> tuple[int, float] | None:
        """The pass over the data that all ranks of a watched training have come to, and how much of it is over. None:
        not known."""
        places = [(rank.position.epoch, share) for rank in self.ranks.values() if (share := rank.of_epoch) is not None]
        return min(places, default=None)

    @property
    def loss(self) -> float | None:
        """Of the last steps, the mean over ranks by sample."""
        return mean_by_sample([(rank.samples, rank.loss) for rank in self.ranks.values() if rank.loss is not None])

    @property
    def samples_per_s(self) -> float | None:
        return sum(rank.samples_per_s or 0.0 for rank in self.ranks.values()) or None


def recent(items: Sequence[Item], ended_ns: Callable[[Item], int], fewest: int) -> list[Item]:
    """The items of the last two seconds, oldest first; at least so many, however long they are."""
    after_ns = ended_ns(items[-1]) - RECENT_NS if items else 0
    return [item for item in items[:-fewest] if ended_ns(item) > after_ns] + list(items[-fewest:])
