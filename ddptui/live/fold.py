"""Applies a run's messages to its live state. Replaying the journal gives the same state."""

from collections.abc import Iterable

from ddptui.analysis.check_log import CheckLog, processes_of
from ddptui.analysis.heartbeats import Loaders
from ddptui.analysis.launch_data import MOST_LINES
from ddptui.live.state import Live, RankState, StepEnd
from ddptui.text.words import size
from ddptui.wire.messages import (
    Done,
    Failed,
    Gpu,
    Heartbeat,
    Hello,
    Line,
    Pause,
    Ready,
    Shown,
    Step,
    Stood,
    Timed,
    Trained,
)
from ddptui.wire.records import Ended, Injection, Launched, Load, Message, Notice, Offset

OfRank = Step | Shown | Timed | Heartbeat | Ready | Trained | Done | Failed
RATE_OVER = 20  # a rank's pace is measured over this many steps
FEWEST_RECENT = 25  # steps that are always kept
MOST_COLLECTIVES = 5_000  # kept per rank: if steps have many collectives, fewer steps are kept


def fold(live: Live, messages: Iterable[Message]) -> Live:
    """Apply messages to the state, in order and in place; returns it. Ranks that have not sent Hello are ignored."""
    for message in messages:
        rank = getattr(message, "rank", None)  # the console's own records have none
        if rank is None or rank in live.ranks or isinstance(message, Hello):
            live.clocks.add(message)
            _apply(live, message)
            if live.watched:
                live.checks.add(message)
    return live


def _apply(live: Live, message: Message) -> None:
    """Apply one message. Messages without a case here change nothing."""
    match message:
        case Step() | Shown() | Timed() | Heartbeat() | Ready() | Trained() | Done() | Failed():
            _apply_to_rank(live, live.ranks[message.rank], message)
        case Launched():
            _begin(live, message)
        case Hello():
            rank = live.ranks[message.rank] = RankState(message.rank, message.device, message.host)
            _active(live, rank, message.at_ns)
        case Pause():
            live.pauses.append(message)
        case Line() if len(live.lines) < MOST_LINES:
            live.lines[message.number] = message
        case Stood():
            live.stood[message.rank] = message
        case Offset() if live.clocks.is_first(message):
            for rank in live.ranks.values():  # before a clock's first offset, its times were only a guess
                if live.clocks.of_rank.get(rank.rank) == message.clock:
                    rank.ends.clear()
        case Load():
            live.load = message
        case Notice():
            live.notice = message.text.partition("\n")[0]
        case Injection():
            live.injected, live.changed_ns = message.bottleneck, message.at_ns
        case Ended():
            _end(live, message)


def _apply_to_rank(live: Live, rank: RankState, message: OfRank) -> None:
    match message:
        case Step():
            _step(live, rank, message)
        case Shown() | Timed():
            rank.state, rank.step = "running", message.place + 1
            if isinstance(message, Shown):
                live.called = f"{message.operation} {(message.reduce_op or '').upper()}".rstrip()
            else:
                live.called = message.operation + (f", {size(message.bytes)}" if message.bytes else "")
            _moved_on(live, rank, message.at_ns)
        case Heartbeat():
            _active(live, rank, message.at_ns)
            rank.cpu_percent, rank.rss_bytes = message.cpu_percent, message.rss_bytes
            rank.gpu_bytes, rank.gpu_reserved_bytes = message.gpu_bytes, message.gpu_reserved_bytes
            rank.gpu = message.gpu or Gpu()
            live.loaders.setdefault(message.rank, Loaders()).add(message)
        case Ready():
            rank.state, rank.steps, rank.flops = "running", message.steps, message.flops
        case Trained():
            rank.step, rank.loss = rank.steps or 0, message.loss
        case Done():
            rank.state = "done"
        case Failed():
            rank.state = "failed"
    rank.progress = rank.progress.after(message)


def _step(live: Live, rank: RankState, message: Step) -> None:
    rank.state, rank.step = "running", message.step + 1
    rank.loss, rank.samples = message.loss, message.samples
    rank.losses.add(message.step, message.loss)
    _moved_on(live, rank, message.end_ns, message.samples)
    if not message.warmup:
        rank.recent.append(message)
        while len(rank.recent) > max(FEWEST_RECENT, MOST_COLLECTIVES // (1 + len(message.collectives))):
            rank.recent.popleft()


def _begin(live: Live, message: Launched) -> None:
    live.trial, live.repeat = message.trial, message.repeat
    live.status, live.error = "running", None
    live.ranks, live.load, live.called = {}, None, ""
    live.injected, live.changed_ns = None, 0
    live.watched, live.checks = message.watched, CheckLog(asked=processes_of(message.command))
    live.launched_ns = message.at_ns
    live.began_ns = message.at_ns if live.began_ns is None else live.began_ns
    live.notice = f"starting cold: {message.start_why}" if message.start_why else ""
    live.pauses.clear()
    live.lines, live.stood, live.loaders = {}, {}, {}


def _end(live: Live, message: Ended) -> None:
    live.status, live.error = message.status, message.error
    live.finished += 1
    if message.status != "ok" and live.trial is not None:
        live.over[live.trial] = live.repeat  # a trial that failed has no further repeats
    if message.status == "failed" and live.trial is not None:
        live.failures[live.trial] = (message.error or "no reason is known").splitlines()[0]


def _active(live: Live, rank: RankState, at_ns: int) -> None:
    """The rank was alive at this moment of its own clock."""
    # Take the maximum: a GPU's step is sent after its CUDA events have completed, and heartbeats may overtake it.
    rank.heard_ns = max(rank.heard_ns, live.clocks.console_ns(rank.rank, at_ns))


def _moved_on(live: Live, rank: RankState, at_ns: int, samples: int = 0) -> None:
    """The rank finished a step at this moment of its own clock."""
    _active(live, rank, at_ns)
    rank.ends.append(StepEnd(live.clocks.console_ns(rank.rank, at_ns), rank.step, samples))
    del rank.ends[:-RATE_OVER]
