"""The messages that the console sends to ranks, the records that it writes into a run's journal, and their times.

`Message` is the type of any line of a journal.

A sitting is the part of a run between two interruptions: the time for which one console had it under way.
"""

from collections.abc import Callable
from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import Meta

from ddptui.config.trial import Bottleneck, StartKind
from ddptui.text.words import DRIFT_PPM, S
from ddptui.wire.limits import Count, Moment, Name, Tagged
from ddptui.wire.messages import RankMessage, Step


class Stop(Tagged, frozen=True, kw_only=True):
    """To a rank: end now."""

    why: str


class Alive(Tagged, frozen=True, kw_only=True):
    """To a rank, every few seconds: the console is running."""


class SetBottleneck(Tagged, frozen=True, kw_only=True):
    """To a rank: replace all injected delays by these, from the next step on."""

    bottleneck: tuple[Bottleneck, ...]


class Probe(Tagged, frozen=True, kw_only=True):
    """To a rank whose clock is not the console's: report its time."""

    number: int


class LastStep(Tagged, frozen=True, kw_only=True):
    """To a rank that trains until it is stopped: stop after this step, or, with gradient accumulation, after the last
    step of the group to which it belongs."""

    step: int


class Look(Tagged, frozen=True, kw_only=True):
    """To a rank: how often to sample its lines, and perhaps to send its stack."""

    per_s: Annotated[int, Meta(ge=1, le=1_000)]
    asked: Count = 0  # number of the request for stacks; 0: none


ConsoleMessage = Stop | Alive | SetBottleneck | Probe | LastStep | Look


# Records that occur only in a journal.


class Load(Tagged, frozen=True, kw_only=True):
    """The mean load of this host over the `s` seconds before at_ns, in cores. Written twice a second."""

    at_ns: Moment
    busy: float  # busy cores
    own: float  # the part of `busy` used by the launch and the console
    s: float = 1.0  # length of the measured interval, s
    idle: float = 0.0  # idle cores
    stolen: float = 0.0  # the part of `busy` that a hypervisor gave to other virtual machines
    by: Name = ""  # the busiest other process, if other processes disturbed the launch


class Launched(Tagged, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """A repeat of a trial was started: the first line of its journal. Journals of older versions have more fields."""

    trial: str
    repeat: Count
    at_ns: Moment
    command: tuple[str, ...]
    start: StartKind = "cold"  # warm: ranks were forked from a process that has imported torch
    start_why: str = ""  # why the start was cold although the trial does not ask for a cold start
    watched: bool = False  # the ranks belong to the user's own command, under `ddptui watch`
    clock: str = ""  # identifies the console's clock; empty: the clocks of console and ranks are unknown


class Notice(Tagged, frozen=True, kw_only=True):
    """What a launch on other hosts is waiting for: nodes that have not joined, or a queued job."""

    at_ns: Moment
    text: str


class Offset(Tagged, frozen=True, kw_only=True):
    """How far a rank's clock is ahead of the console's, measured by one probe: offset_ns ± error_ns."""

    rank: int
    clock: str
    at_ns: Moment  # by the console's clock
    offset_ns: Moment
    error_ns: Count


class Refused(Tagged, frozen=True, kw_only=True):
    """The console rejected frames or messages that no rank of this launch may send. Written for the first one, and
    again at the end if there were more."""

    at_ns: Moment
    count: Count
    why: str  # why the first one was rejected


class Injection(Tagged, frozen=True, kw_only=True):
    """The console has sent the ranks these delays, in place of all others; each rank applies them at its next step."""

    at_ns: Moment
    bottleneck: tuple[Bottleneck, ...]


class NcclLog(Tagged, frozen=True, forbid_unknown_fields=False):
    """A line of NCCL's own log. Only journals of older versions have it; it is ignored."""

    at_ns: Moment


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why a launch failed: its first cause, as far as it is known."""

    summary: str  # one line: which rank, how, and where
    remedy: str = ""  # one line: what it means, and what to do
    rank: int | None = None  # the rank that failed first or kept the others waiting; None: not a single one
    step: int | None = None  # the step that this rank was in, or had finished last
    place: str = ""  # the innermost line of the user's code: train.py:57
    error: str = ""  # the first line of the exception
    details: tuple[str, ...] = ()  # the evidence, a line each: what the other ranks did, the end of a log

    @property
    def text(self) -> str:
        """The whole failure, a line each."""
        return "\n".join([self.summary, *filter(None, [self.remedy]), *self.details])


class Restarted(Tagged, frozen=True, kw_only=True):
    """The launcher of a watched training has started the ranks again."""

    at_ns: Moment
    failure: Failure  # why the attempt before has ended


class Ended(Tagged, frozen=True, kw_only=True):
    """A repeat is over: the last line of its journal."""

    at_ns: Moment
    status: Literal["ok", "failed", "interrupted", "skipped"]  # skipped: the user went on to the next trial
    error: str | None = None
    failure: Failure | None = None  # the same error, in parts, if its cause is known


Message = RankMessage | Launched | Load | Notice | Offset | Refused | Injection | NcclLog | Restarted | Ended


# Fields that hold points in time, which are shifted. All other fields in ns are durations, which are not.
TIMES = ("at_ns", "begin_ns", "end_ns", "first_ns", "heard_ns", "said_ns")
TIMES_OF_COLLECTIVES = ("called_ns", "enter_ns", "awaited_ns", "exit_ns")
LONGEST_GAP = 60 * S  # a longer gap between two launches means that a new sitting began
GAP = S  # the gap that remains between two sittings
AnyStruct = TypeVar("AnyStruct", bound=msgspec.Struct)


class Sittings:
    """Computes by how much a run's messages must be shifted to follow each other without long gaps."""

    def __init__(self) -> None:
        self.by_ns = 0  # the shift for the message that was added last
        self._last_ns: int | None = None

    def add(self, message: Message) -> None:
        """Add the run's next message, and update `by_ns` for it."""
        if isinstance(message, Launched) and self._last_ns is not None:
            gap_ns = message.at_ns + self.by_ns - self._last_ns
            if not 0 <= gap_ns <= LONGEST_GAP:  # negative: the host was rebooted, which restarts its clock
                self.by_ns += GAP - gap_ns
        if not hasattr(message, "rank"):  # only times by the console's clock: a rank may have another clock
            self._last_ns = max(self._last_ns or 0, message.at_ns + self.by_ns)


def shift_times(message: AnyStruct, by_ns: int) -> AnyStruct:
    """The message with all its times shifted by by_ns."""
    return map_times(message, lambda moment_ns: moment_ns + by_ns)


def map_times(message: AnyStruct, move: Callable[[int], int]) -> AnyStruct:
    """The message with `move` applied to all its times, but not to its durations."""
    moved = _moved(message, TIMES, move)
    if not isinstance(message, Step):
        return moved
    collectives = tuple(_moved(collective, TIMES_OF_COLLECTIVES, move) for collective in message.collectives)
    slept = tuple(_moved(delay, TIMES, move) for delay in message.slept)
    lines = tuple(_moved(sample, TIMES, move) for sample in message.lines)
    return msgspec.structs.replace(moved, collectives=collectives, slept=slept, lines=lines)


def _moved(struct: AnyStruct, fields: tuple[str, ...], move: Callable[[int], int]) -> AnyStruct:
    times = {field: move(getattr(struct, field)) for field in fields if hasattr(struct, field)}
    return msgspec.structs.replace(struct, **times)


def clock_drift(ns: int) -> int:
    """The largest drift between two clocks over a period, both in ns, rounded up."""
    return -(-abs(ns) * DRIFT_PPM // 1_000_000)
