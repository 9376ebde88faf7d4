"""Applies the messages of a run to its state: one function a message. A replay of the journal gives the same state."""

from collections.abc import Iterable
from functools import singledispatch

from ddptui.live.state import Live, RankState
from ddptui.text.units import size
from ddptui.wire.messages import Done, Failed, Gpu, Heartbeat, Hello, Pause, Ready, Shown, Step, Timed, Trained
from ddptui.wire.records import Ended, Injection, Launched, Load, Message, Notice, Offset, Refused

RATE_OVER = 20  # steps
FEWEST_RECENT = 25  # steps that are kept in any case
MOST_COLLECTIVES = 5_000  # kept of a rank: where a step has many of them, fewer steps are kept


def fold(live: Live, messages: Iterable[Message]) -> Live:
    """Apply messages to the state, in order and in place; returns it. Ranks that have not sent Hello are ignored."""
    for message in messages:
        rank = getattr(message, "rank", None)  # the console's own records have none
        if rank is None or rank in live.ranks or isinstance(message, Hello):
            live.clocks.add(message)
            _apply(message, live)
    return live


@singledispatch
def _apply(message: object, live: Live) -> None:
    """Messages without a function of their own change nothing here."""


@_apply.register
def _step(message: Step, live: Live) -> None:
    rank = live.ranks[message.rank]
    rank.state = "running"
    rank.step = message.step + 1
    rank.loss = message.loss
    rank.samples = message.samples
    rank.phases_ns = message.phases_ns
    rank.losses.add(message.step, message.loss)
    _moved_on(live, rank, message.end_ns)
    if not message.warmup:
        rank.recent.append(message)
        while len(rank.recent) > max(FEWEST_RECENT, MOST_COLLECTIVES // (1 + len(message.collectives))):
            rank.recent.popleft()


@_apply.register
def _primitive(message: Shown | Timed, live: Live) -> None:
    rank = live.ranks[message.rank]
    rank.state = "running"
    rank.step = message.place + 1
    live.called = _called(message)
    _moved_on(live, rank, message.at_ns)


def _called(message: Shown | Timed) -> str:
    if isinstance(message, Shown):
        return f"{message.operation} {message.reduce_op.upper()}" if message.reduce_op else message.operation
    return f"{message.operation} {size(message.bytes)}" if message.bytes else message.operation


@_apply.register
def _heartbeat(message: Heartbeat, live: Live) -> None:
    rank = live.ranks[message.rank]
    _active(live, rank, message.at_ns)
    rank.cpu_percent = message.cpu_percent
    rank.rss_bytes = message.rss_bytes
    rank.gpu_bytes = message.gpu_bytes
    rank.gpu = message.gpu or Gpu()
    rank.dropped = message.dropped
    rank.position = message.position


@_apply.register
def _launched(message: Launched, live: Live) -> None:
    live.trial, live.repeat = message.trial, message.repeat
    live.status, live.error = "running", None
    live.ranks, live.load, live.injected, live.refused, live.called = {}, None, None, None, None
    live.launched_ns = message.at_ns
    live.began_ns = message.at_ns if live.began_ns is None else live.began_ns
    live.notice = ""
    live.pauses.clear()


@_apply.register
def _hello(message: Hello, live: Live) -> None:
    rank = live.ranks[message.rank] = RankState(rank=message.rank, pid=message.pid, device=message.device)
    _active(live, rank, message.at_ns)


@_apply.register
def _ready(message: Ready, live: Live) -> None:
    live.ranks[message.rank].steps = message.steps
    live.ranks[message.rank].state = "running"


@_apply.register
def _trained(message: Trained, live: Live) -> None:
    live.ranks[message.rank].step = live.ranks[message.rank].steps or 0
    live.ranks[message.rank].loss = message.loss


@_apply.register
def _pause(message: Pause, live: Live) -> None:
    live.pauses.append(message)


@_apply.register
def _offset(message: Offset, live: Live) -> None:
    if not live.clocks.is_first(message):
        return
    for rank in live.ranks.values():  # before its first offset, the times of a clock were a guess
        if live.clocks.of_rank.get(rank.rank) == message.clock:
            rank.ends_ns.clear()


@_apply.register
def _load(message: Load, live: Live) -> None:
    live.load = message


@_apply.register
def _refused(message: Refused, live: Live) -> None:
    live.refused = message


@_apply.register
def _notice(message: Notice, live: Live) -> None:
    live.notice = message.text


@_apply.register
def _injection(message: Injection, live: Live) -> None:
    live.injected = message.bottleneck


@_apply.register
def _done(message: Done, live: Live) -> None:
    live.ranks[message.rank].state = "done"
    live.ranks[message.rank].dropped = message.dropped


@_apply.register
def _failed(message: Failed, live: Live) -> None:
    live.ranks[message.rank].state = "failed"
    live.ranks[message.rank].error = message.error


@_apply.register
def _ended(message: Ended, live: Live) -> None:
    live.status, live.error = message.status, message.error
    live.finished += 1
    if message.status != "ok" and live.trial is not None:
        live.over[live.trial] = live.repeat
    if message.status == "failed" and live.trial is not None:
        live.failures[live.trial] = (message.error or "no reason is known").splitlines()[0]


def _active(live: Live, rank: RankState, at_ns: int) -> None:
    """The rank was alive at this moment of its own clock."""
    rank.heard_ns = max(rank.heard_ns, live.clocks.console_ns(rank.rank, at_ns))


def _moved_on(live: Live, rank: RankState, at_ns: int) -> None:
    """The rank finished a step at this moment of its own clock."""
    _active(live, rank, at_ns)
    rank.ends_ns.append(live.clocks.console_ns(rank.rank, at_ns))
    del rank.ends_ns[:-RATE_OVER]
