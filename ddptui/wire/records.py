"""What the console sends to ranks, and what it records in a run's journal itself. Message is any line of a journal."""

from typing import Literal

from ddptui.config.trial import Bottleneck, StartKind
from ddptui.wire.limits import Count, Moment, Name, Tagged
from ddptui.wire.messages import RankMessage


class Stop(Tagged, frozen=True, kw_only=True):
    """To a rank: end now."""

    why: str


class Alive(Tagged, frozen=True, kw_only=True):
    """To a rank, every few seconds: the console is running."""


class SetBottleneck(Tagged, frozen=True, kw_only=True):
    """To a rank: from the next step on, these delays replace all others."""

    bottleneck: tuple[Bottleneck, ...]


class Probe(Tagged, frozen=True, kw_only=True):
    """To a rank with another clock: report the time of that clock."""

    number: int


class LastStep(Tagged, frozen=True, kw_only=True):
    """To a rank that trains until it is stopped: its last step; of steps whose gradients add up, the last one is."""

    step: int


ConsoleMessage = Stop | Alive | SetBottleneck | Probe | LastStep


# In a journal only.


class Load(Tagged, frozen=True, kw_only=True):
    """How busy this host was until a moment, written twice a second."""

    at_ns: Moment
    busy: float  # cores, mean
    own: float  # of these, by the launch and the console
    s: float = 1.0  # over this time
    idle: float = 0.0  # cores
    stolen: float = 0.0  # of the busy ones, those that a hypervisor gave to other machines
    by: Name = ""  # the busiest other process, where others disturbed


class Launched(Tagged, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """A repeat of a trial was started: the first line of its journal. Those of older versions have more fields."""

    trial: str
    repeat: Count
    at_ns: Moment
    command: tuple[str, ...]
    start: StartKind = "cold"  # warm: ranks were forked from a process that has imported torch
    start_why: str = ""  # why it was cold, where the trial does not ask for it
    watched: bool = False  # the ranks are of a command of the user's own
    clock: str = ""  # identifies the console's clock; empty: it is unknown, and so are those of the ranks


class Notice(Tagged, frozen=True, kw_only=True):
    """What a launch on other hosts waits for: nodes that are to join, or a job in a queue."""

    at_ns: Moment
    text: str


class Offset(Tagged, frozen=True, kw_only=True):
    """How far a rank's clock is ahead of the console's, by one probe: offset_ns, give or take error_ns."""

    rank: int
    clock: str
    at_ns: Moment  # by the console's clock
    offset_ns: Moment
    error_ns: Count


class Refused(Tagged, frozen=True, kw_only=True):
    """Frames or messages were refused, because no rank of this launch may send them. Written with the first one, and
    at the end if there were more."""

    at_ns: Moment
    count: Count
    why: str  # of the first one


class Injection(Tagged, frozen=True, kw_only=True):
    """The console has sent the ranks these delays, in place of all others; each rank applies them at its next step."""

    at_ns: Moment
    bottleneck: tuple[Bottleneck, ...]


class NcclLog(Tagged, frozen=True, forbid_unknown_fields=False):
    """What NCCL's own log said. Only journals of older versions have it, and it is ignored."""

    at_ns: Moment


class Ended(Tagged, frozen=True, kw_only=True):
    """A repeat is over: the last line of its journal."""

    at_ns: Moment
    status: Literal["ok", "failed", "interrupted", "skipped"]  # skipped: the user went on to the next trial
    error: str | None = None


Message = RankMessage | Launched | Load | Notice | Offset | Refused | Injection | NcclLog | Ended
