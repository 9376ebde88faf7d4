"""The console's own records in a run's journal; and Message, which is every kind of line that a journal may hold."""

from typing import Literal

from ddptui.config.trial import Bottleneck
from ddptui.wire.limits import Tagged
from ddptui.wire.messages import RankMessage


class Load(Tagged, frozen=True, kw_only=True):
    """How busy this host is, in cores, and how much of that is the launch and the console. Written once a second."""

    at_ns: int
    busy: float
    own: float


class Launched(Tagged, frozen=True, kw_only=True):
    """A repeat of a trial was started: the first line of its journal. clock identifies the console's clock; empty: it
    is unknown, and so are those of the ranks."""

    trial: str
    repeat: int
    at_ns: int
    command: tuple[str, ...]
    clock: str = ""


class Notice(Tagged, frozen=True, kw_only=True):
    """What a launch on other hosts waits for: nodes that are to join, or a job in a queue."""

    at_ns: int
    text: str


class Offset(Tagged, frozen=True, kw_only=True):
    """How far a rank's clock is ahead of the console's, by one probe: offset_ns, give or take error_ns, when the
    console's clock stood at at_ns."""

    rank: int
    clock: str
    at_ns: int
    offset_ns: int
    error_ns: int


class Refused(Tagged, frozen=True, kw_only=True):
    """The number of frames or messages of this launch that were refused, because no rank of it may send them. why: the
    reason for the first. Written with the first, and at the end if there were more."""

    at_ns: int
    count: int
    why: str


class Injection(Tagged, frozen=True, kw_only=True):
    """The console has sent the ranks these delays, in place of all others; each rank applies them at its next step."""

    at_ns: int
    bottleneck: tuple[Bottleneck, ...]


class Ended(Tagged, frozen=True, kw_only=True):
    """A repeat is over: the last line of its journal. skipped: the user went on to the next trial."""

    at_ns: int
    status: Literal["ok", "failed", "interrupted", "skipped"]
    error: str | None = None


Message = RankMessage | Launched | Load | Notice | Offset | Refused | Injection | Ended
