"""The console's own lines of a run's journal, beside the messages of the ranks."""

from typing import Literal

from ddptui.config.trial import Bottleneck
from ddptui.wire.limits import Tagged
from ddptui.wire.messages import RankMessage


class Load(Tagged, frozen=True, kw_only=True):
    """How busy this host is, in cores, and how much of that is the launch and the console. Once a second."""

    at_ns: int
    busy: float
    own: float


class Launched(Tagged, frozen=True, kw_only=True):
    """The lab has started a repeat of a trial. The first line of its journal. `clock`: the console's (empty: it is not
    known, as that of its ranks is not)."""

    trial: str
    repeat: int
    at_ns: int
    command: tuple[str, ...]
    clock: str = ""


class Notice(Tagged, frozen=True, kw_only=True):
    """What a launch waits for, where its ranks are started elsewhere: nodes that are to join, a job in a queue."""

    at_ns: int
    text: str


class Offset(Tagged, frozen=True, kw_only=True):
    """How far a rank's clock is ahead of the console's, as one probe has it: by `offset_ns`, give or take `error_ns`,
    when the console's said `at_ns`."""

    rank: int
    clock: str
    at_ns: int
    offset_ns: int
    error_ns: int


class Refused(Tagged, frozen=True, kw_only=True):
    """So many frames or messages have been refused in this launch: no rank of it may say such things. `why`: the first
    one was. Said with the first, and at the end if there were more."""

    at_ns: int
    count: int
    why: str


class Injection(Tagged, frozen=True, kw_only=True):
    """The lab has sent the ranks these delays, in place of those that they had: each takes them up at its next step."""

    at_ns: int
    bottleneck: tuple[Bottleneck, ...]


class Ended(Tagged, frozen=True, kw_only=True):
    """The lab has seen the end of a repeat. The last line of its journal. Skipped: somebody wanted to go on to the next
    trial."""

    at_ns: int
    status: Literal["ok", "failed", "interrupted", "skipped"]
    error: str | None = None


Message = RankMessage | Launched | Load | Notice | Offset | Refused | Injection | Ended
