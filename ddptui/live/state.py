"""The state of a run right now: a fold of its messages. No I/O, no clock: replaying a journal gives the same state.

Times are by the console's clock; of ranks elsewhere, as well as it is known by then. Steps and pauses are kept as they
were told, to be brought to one clock together by whoever compares them.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import msgspec

from ddptui.analysis.clock_sync import Clocks
from ddptui.config.trial import Bottleneck
from ddptui.live.loss_curve import Curve
from ddptui.text.units import size
from ddptui.wire.messages import (
    Done,
    Failed,
    Gpu,
    Heartbeat,
    Hello,
    Pause,
    Position,
    Ready,
    Shown,
    Step,
    Timed,
    Trained,
)
from ddptui.wire.records import Ended, Injection, Launched, Load, Message, Notice, Offset, Refused

Item = TypeVar("Item")

RATE_OVER = 20  # steps
MOST_RECENT, FEWEST_RECENT = 200, 25  # steps that are kept; fewer than the most where they have many collectives,
MOST_COLLECTIVES = 5_000  # of a rank
RECENT_NS = 2e9  # of which verdict and panes speak
MOST_PAUSES = 100


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
    ends_ns: list[int] = msgspec.field(default_factory=list)  # of the last steps
    losses: Curve = msgspec.field(default_factory=Curve)
    heard_ns: int = 0  # when it last beat, or finished a step
    recent: deque[Step] = msgspec.field(default_factory=lambda: deque(maxlen=MOST_RECENT))  # warm-up left out
    cpu_percent: float | None = None
    rss_bytes: int | None = None
    gpu_bytes: int | None = None  # of its own tensors
    gpu: Gpu = Gpu()  # what its GPU is at, whoever uses it
    dropped: int = 0
    position: Position = Position()  # at its last beat
    error: str | None = None

    @property
    def steps_per_s(self) -> float | None:
        if len(self.ends_ns) < 2 or self.ends_ns[-1] == self.ends_ns[0]:
            return None
        return (len(self.ends_ns) - 1) / (self.ends_ns[-1] - self.ends_ns[0]) * 1e9


class Live(msgspec.Struct):
    """The state of a run. `finished` counts the launches that have ended; `there`, those of them that the run had when
    it was resumed."""

    trial: str | None = None
    repeat: int = 0
    status: str = "idle"  # idle, running, ok, failed, interrupted, skipped
    error: str | None = None
    finished: int = 0
    there: int = 0
    began_ns: int | None = None  # the first launch
    launched_ns: int = 0  # the current one
    over: dict[str, int] = msgspec.field(default_factory=dict)  # trials that ended early: after how many launches
    failures: dict[str, str] = msgspec.field(default_factory=dict)  # by trial, in a line
    injected: tuple[Bottleneck, ...] | None = None  # by hand, in place of the trial's own
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
    def loss(self) -> float | None:
        """Of the last steps, the mean over ranks by sample."""
        told = [rank for rank in self.ranks.values() if rank.loss is not None and rank.samples]
        samples = sum(rank.samples for rank in told)
        return sum((rank.loss or 0.0) * rank.samples for rank in told) / samples if samples else None

    @property
    def samples_per_s(self) -> float | None:
        rates = [rate * rank.samples for rank in self.ranks.values() if (rate := rank.steps_per_s) is not None]
        return sum(rates) if rates else None


def lately(items: Sequence[Item], ended_ns: Callable[[Item], int], fewest: int) -> list[Item]:
    """Of steps in their order, those of the last seconds, or a few more if they are long."""
    after_ns = ended_ns(items[-1]) - RECENT_NS if items else 0
    return [item for item in items[:-fewest] if ended_ns(item) > after_ns] + list(items[-fewest:])


def fold(live: Live, messages: Iterable[Message]) -> Live:
    """Apply messages to the state, in order, in place; returns it. Who has not said Hello is nobody."""
    for message in messages:
        rank = getattr(message, "rank", None)  # none: it is the lab that speaks
        if rank is None or rank in live.ranks or isinstance(message, Hello):
            live.clocks.add(message)
            _apply(live, message)
    return live


def _called(message: Shown | Timed) -> str:
    if isinstance(message, Shown):
        return f"{message.operation} {message.reduce_op.upper()}" if message.reduce_op else message.operation
    return f"{message.operation} {size(message.bytes)}" if message.bytes else message.operation


def _heard(live: Live, rank: RankState, at_ns: int, *, moved_on: bool = False) -> None:
    """At this moment of its own clock, of a rank that may have come further."""
    by_console_ns = live.clocks.console_ns(rank.rank, at_ns)
    rank.heard_ns = max(rank.heard_ns, by_console_ns)
    if moved_on:
        rank.ends_ns.append(by_console_ns)
        del rank.ends_ns[:-RATE_OVER]


def _apply(live: Live, message: Message) -> None:
    match message:
        case Step():
            rank = live.ranks[message.rank]
            rank.state = "running"
            rank.step = message.step + 1
            rank.loss = message.loss
            rank.samples = message.samples
            rank.phases_ns = message.phases_ns
            rank.losses.add(message.step, message.loss)
            _heard(live, rank, message.end_ns, moved_on=True)
            if not message.warmup:
                rank.recent.append(message)
                while len(rank.recent) > max(FEWEST_RECENT, MOST_COLLECTIVES // (1 + len(message.collectives))):
                    rank.recent.popleft()
        case Shown() | Timed():
            rank = live.ranks[message.rank]
            rank.state = "running"
            rank.step = message.place + 1
            live.called = _called(message)
            _heard(live, rank, message.at_ns, moved_on=True)
        case Heartbeat():
            rank = live.ranks[message.rank]
            _heard(live, rank, message.at_ns)
            rank.cpu_percent = message.cpu_percent
            rank.rss_bytes = message.rss_bytes
            rank.gpu_bytes = message.gpu_bytes
            rank.gpu = message.gpu or Gpu()
            rank.dropped = message.dropped
            rank.position = message.position
        case Launched():
            live.trial, live.repeat = message.trial, message.repeat
            live.status, live.error = "running", None
            live.ranks, live.load, live.injected, live.refused, live.called = {}, None, None, None, None
            live.launched_ns = message.at_ns
            live.began_ns = message.at_ns if live.began_ns is None else live.began_ns
            live.notice = ""
            live.pauses.clear()
        case Hello():
            live.ranks[message.rank] = RankState(rank=message.rank, pid=message.pid, device=message.device)
            _heard(live, live.ranks[message.rank], message.at_ns)
        case Ready():
            live.ranks[message.rank].steps = message.steps
            live.ranks[message.rank].state = "running"
        case Trained():
            live.ranks[message.rank].step = live.ranks[message.rank].steps or 0
            live.ranks[message.rank].loss = message.loss
        case Pause():
            live.pauses.append(message)
        case Offset() if live.clocks.is_first(message):  # what there was before, was a guess
            for rank in live.ranks.values():
                if live.clocks.of_rank.get(rank.rank) == message.clock:
                    rank.ends_ns.clear()
        case Load():
            live.load = message
        case Refused():
            live.refused = message
        case Notice():
            live.notice = message.text
        case Injection():
            live.injected = message.bottleneck
        case Done():
            live.ranks[message.rank].state = "done"
            live.ranks[message.rank].dropped = message.dropped
        case Failed():
            live.ranks[message.rank].state = "failed"
            live.ranks[message.rank].error = message.error
        case Ended():
            live.status, live.error = message.status, message.error
            live.finished += 1
            if message.status != "ok" and live.trial is not None:
                live.over[live.trial] = live.repeat
            if message.status == "failed" and live.trial is not None:
                live.failures[live.trial] = (message.error or "no reason is known").splitlines()[0]
