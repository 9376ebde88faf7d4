"""How a watched training finds the relay on its host: through a file that an environment variable names. A later
console may rewrite the file for its own relay; ranks that were released then report to that relay."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import asdict

from ddptui.config.trial import Bottleneck
from ddptui.wire.limits import Count, Error
from ddptui.wire.messages import DeadWorkers, Stack

LET_GO = b"let go\n"  # the last line sent to a relay; if it is missing, the process that started the relay has died


class Watching(msgspec.Struct, frozen=True, kw_only=True):
    """Which steps of the training are reported, and which delays are injected."""

    skip: int = 3  # number of first steps that count as warm-up
    steps: int | None = None  # ranks are released after this many steps, warm-up included; None: never
    every: int = 1  # only every n-th step is reported
    bottleneck: tuple[Bottleneck, ...] = ()
    checks: bool = True  # whether ranks read what the checks compare
    lines: bool = True  # whether ranks sample the lines of the training's thread


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """What a process writes into the file of events, as a line of JSON: that it joins its process group, that a thread
    of it fails, or, if its relay does not learn of it, that it fails itself."""

    what: Literal["failed", "thread", "joins", "joined"]
    at_ns: Count
    pid: Count
    rank: int | None = None  # by its environment, or as it has joined
    world: int | None = None
    attempt: Count = 0  # how many times torchrun has restarted the ranks
    launched: int | None = None  # the world size by its environment
    error: Error = ""
    stack: Stack = ()
    exit: int | None = None  # the exit code that it has chosen
    # Of a launcher, the ranks that have failed: rank, process id, exit code; as in subprocess, minus the signal number.
    failures: Annotated[tuple[tuple[int, int | None, int | None], ...], Meta(max_length=1024)] = ()
    workers: DeadWorkers = ()


class RelayTask(msgspec.Struct, frozen=True, kw_only=True):
    """The task of a relay, sent by the process that starts it as one line of JSON."""

    listener: int  # file descriptor of the socket that ranks connect to
    hub_environment: dict[str, str]  # the variables of wire/connection.py by which a rank connects to the console
    watching: Watching
    notes: str  # the file in which the relay writes why a rank is not watched
    # If set, and the process that started the relay has died, the relay ends the processes that find it by this file.
    ends: str | None = None

    def spell(self) -> bytes:
        """The task as one line, which `read` parses."""
        return msgspec.json.encode(self) + b"\n"

    @classmethod
    def read(cls, line: bytes) -> "RelayTask":
        """The task from a line that `spell` has written. Raises ValueError."""
        return msgspec.json.decode(line, type=cls)


def orders(socket: str, watching: Watching) -> bytes:
    """The content of the file by which ranks find the relay: JSON, so that ranks can read it without msgspec. socket:
    the path of the relay's socket."""
    delays = [asdict(delay) for delay in watching.bottleneck]  # with defaults, which the ranks do not know
    return msgspec.json.encode({"socket": socket, **asdict(watching), "bottleneck": delays})
