"""The live state of a run, which fold.py builds from its messages; also what a run of primitives has measured so
far.

Times are in the console's clock. For ranks on other hosts they are only as exact as their clocks are known so far.
Steps and pauses keep their rank's own times: RunMonitor converts them together.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean
from typing import NamedTuple, TypeVar

import msgspec

from ddptui.analysis.check_log import CheckLog
from ddptui.analysis.clocks import Clocks
from ddptui.analysis.figures import mean_by_sample
from ddptui.analysis.heartbeats import Loaders
from ddptui.analysis.primitive_results import PrimitivesLog, PrimitivesResult, combined
from ddptui.analysis.results import Results
from ddptui.analysis.thinning import Thinned
from ddptui.config.trial import Bottleneck
from ddptui.diagnosis.positions import RankProgress
from ddptui.findings.repeat import NO_OUTCOMES, Outcomes
from ddptui.wire.messages import Gpu, Hello, Line, Pause, Shown, Step, Stood, Timed
from ddptui.wire.records import Launched, Load, Message

Item = TypeVar("Item")

MOST_RECENT = 200  # steps kept per rank
RECENT_NS = 2e9  # the judgement covers the last two seconds
MOST_PAUSES = 100

Point = tuple[int, float | None]  # step and value; None: the value was not finite


Curve = Thinned[float | None]  # a figure over the steps of a training


def mean_of(curves: Sequence[Curve]) -> list[Point]:
    """The mean of several curves, at the steps that all of them have; None where any value is not finite."""
    return across([curve.points for curve in curves], fmean)


def across(several: Sequence[Sequence[Point]], middle: Callable[[Sequence[float]], float]) -> list[Point]:
    """Several curves combined by `middle`, at the steps that all of them have; None where any value is not finite."""
    tables = [dict(points) for points in several]
    steps = sorted(set.intersection(*map(set, tables))) if tables else []
    finite = [(step, [value for table in tables if (value := table[step]) is not None]) for step in steps]
    return [(step, middle(values) if len(values) == len(tables) else None) for step, values in finite]


class StepEnd(NamedTuple):
    """The end of a rank's step, and the number of its samples."""

    at_ns: int
    step: int
    samples: int


class RankState(msgspec.Struct):
    """The state of one rank of the current launch."""

    rank: int
    device: str
    host: str = ""
    state: str = "starting"  # starting, running, done, failed
    step: int = 0  # number of finished steps
    steps: int | None = None  # number of steps to make
    loss: float | None = None
    samples: int = 0  # in the last step
    ends: list[StepEnd] = msgspec.field(default_factory=list)  # ends of the last reported steps
    flops: float | None = None  # floating-point operations per sample; None: not counted
    losses: Curve = msgspec.field(default_factory=Curve)
    heard_ns: int = 0  # time of the last heartbeat or end of a step
    recent: deque[Step] = msgspec.field(default_factory=lambda: deque(maxlen=MOST_RECENT))  # without warm-up
    cpu_percent: float | None = None
    rss_bytes: int | None = None
    gpu_bytes: int | None = None  # allocated for the rank's tensors
    gpu_reserved_bytes: int | None = None  # reserved by torch, allocated or not
    gpu: Gpu = Gpu()  # load, memory, power and clock of the rank's GPU, all processes included
    progress: RankProgress = RankProgress()

    @property
    def steps_per_s(self) -> float | None:
        """Reported steps per second. Under `watch --every N`, a rank reports one step in N."""
        if len(self.ends) < 2 or self.ends[-1].at_ns == self.ends[0].at_ns:
            return None
        return (len(self.ends) - 1) / (self.ends[-1].at_ns - self.ends[0].at_ns) * 1e9

    @property
    def samples_per_s(self) -> float | None:
        """Samples per second over the last steps, unreported steps included. None: unknown, or samples not counted."""
        if (reports_per_s := self.steps_per_s) is None:
            return None
        steps_a_report = (self.ends[-1].step - self.ends[0].step) / (len(self.ends) - 1)
        return reports_per_s * steps_a_report * fmean(end.samples for end in self.ends[1:]) or None

    @property
    def epoch(self) -> tuple[int, float] | None:
        """The current epoch, and the part of its data that the rank has fetched, from 0 to 1. None: unknown."""
        position = self.progress.position
        return (position.epoch, min(1.0, position.batch / position.batches)) if position.batches else None


class Live(msgspec.Struct):
    """The live state of a run."""

    trial: str | None = None
    repeat: int = 0
    status: str = "idle"  # idle, running, ok, failed, interrupted, skipped
    error: str | None = None
    finished: int = 0  # number of launches that have ended
    resumed: int = 0  # how many of these the run already had when it was resumed
    began_ns: int | None = None  # start of the first launch
    launched_ns: int = 0  # start of the current launch
    over: dict[str, int] = msgspec.field(default_factory=dict)  # trials that ended early -> number of their launches
    failures: dict[str, str] = msgspec.field(default_factory=dict)  # trial -> reason, one line
    injected: tuple[Bottleneck, ...] | None = None  # the user's delays, which replace the trial's; None: unchanged
    changed_ns: int = 0  # when the user last changed the delays of this launch; 0: never
    ranks: dict[int, RankState] = msgspec.field(default_factory=dict)
    load: Load | None = None
    notice: str = ""  # what the launch waits for before its ranks connect
    called: str = ""  # the primitive that was called last: all_reduce, 64 KB
    pauses: deque[Pause] = msgspec.field(default_factory=lambda: deque(maxlen=MOST_PAUSES))
    clocks: Clocks = msgspec.field(default_factory=Clocks)
    loaders: dict[int, Loaders] = msgspec.field(default_factory=dict)  # by rank
    lines: dict[int, Line] = msgspec.field(default_factory=dict)  # for which numbers stand in steps
    stood: dict[int, Stood] = msgspec.field(default_factory=dict)  # by rank: where it stood when the user asked
    watched: bool = False  # the current launch is of a user's own training
    checks: CheckLog = msgspec.field(default_factory=CheckLog)  # of the current launch, if it is watched

    @property
    def step(self) -> int:
        """The number of steps that all ranks have finished."""
        return min((rank.step for rank in self.ranks.values()), default=0)

    @property
    def steps(self) -> int | None:
        return next((rank.steps for rank in self.ranks.values() if rank.steps), None)

    @property
    def epoch(self) -> tuple[int, float] | None:
        """The epoch that all ranks of a watched training have reached, and the part of it that is done. None:
        unknown."""
        return min((rank.epoch for rank in self.ranks.values() if rank.epoch is not None), default=None)

    @property
    def loss(self) -> float | None:
        """The loss of the last steps: the mean over ranks, weighted by samples."""
        return mean_by_sample([(rank.samples, rank.loss) for rank in self.ranks.values() if rank.loss is not None])


def recent(items: Sequence[Item], ended_ns: Callable[[Item], int], fewest: int) -> list[Item]:
    """The items of the last two seconds, oldest first, and at least the last `fewest` items."""
    after_ns = ended_ns(items[-1]) - RECENT_NS if items else 0
    return [item for item in items[:-fewest] if ended_ns(item) > after_ns] + list(items[-fewest:])


class PrimitivesProgress:
    """The results of the finished launches, and of the running launch, as far as all ranks have sent messages."""

    def __init__(self, outcomes: Outcomes = NO_OUTCOMES) -> None:
        """`outcomes`: the launches that a resumed run already has."""
        self.trial: str | None = None  # the trial that was launched last
        self._launches: dict[str, list[PrimitivesResult]] = {}  # by trial
        self._together: dict[str, PrimitivesResult] = {}  # cache by trial: its launches combined
        self._hello: Hello | None = None
        self._messages = PrimitivesLog()
        for outcome in outcomes.values():
            if outcome.primitives is not None:
                self._launches.setdefault(outcome.trial, []).append(outcome.primitives)

    @staticmethod
    def of(results: Results) -> "PrimitivesProgress":
        """Returns the results of a finished run."""
        progress = PrimitivesProgress()
        progress._launches = {trial.name: list(trial.primitives) for trial in results.trials if trial.primitives}
        return progress

    def result(self, trial: str) -> PrimitivesResult | None:
        """The combined result of a trial's launches; the same object until more is measured."""
        if trial not in self._together and trial in self._launches:
            self._together[trial] = combined(self._launches[trial])
        return self._together.get(trial)

    def add(self, messages: Iterable[Message]) -> None:
        """Apply messages, in order."""
        for message in messages:
            match message:
                case Launched():
                    self.trial, self._hello, self._messages = message.trial, None, PrimitivesLog()
                case Hello() if self._hello is None:
                    self._hello = message
                    self._launches.setdefault(self.trial or "", []).append(self._messages.result(message))
                case Shown() | Timed() if self._hello is not None:
                    self._messages.add(message)
                    self._add(message.place, self._hello)

    def _add(self, place: int, hello: Hello) -> None:
        """Once all ranks have sent their message for a place, replace the messages with the result."""
        messages = self._messages.places.get(place, {})
        if len(messages) < hello.world_size or self.trial is None:
            return
        more = PrimitivesLog({place: self._messages.places.pop(place)}).result(hello)
        launches = self._launches[self.trial]
        before = launches[-1]
        views, cells = [*before.views, *more.views], [*before.cells, *more.cells]
        launches[-1] = msgspec.structs.replace(more, views=views, cells=cells)
        self._together.pop(self.trial, None)
