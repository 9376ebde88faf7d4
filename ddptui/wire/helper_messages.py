"""The messages between a console and its helpers: the nodes of its run, and its warm parent (workers/warm.py).

The nodes' messages are MessagePack, in which the field `type` names the class.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from ddptui.wire.limits import Count, Error, Name, Tagged, Word

MOST_BYTES = 2**20  # largest message: any process that can reach the port may send one
MEETING_MARK = "ddptui-meeting-"  # prefix of the names of rendezvous files
MOST_LOGS = 2048

NodeNumber = Annotated[int, Meta(ge=0, lt=1024)]
Assignments = Annotated[tuple[Annotated[str, Meta(max_length=65_536)], ...], Meta(max_length=200)]
Text = Annotated[str, Meta(max_length=2048)]


class Join(Tagged, frozen=True, kw_only=True):
    """The first message of a node."""

    version: Word
    token: Annotated[str, Meta(max_length=256)]
    node: int | None  # the number that the node asks for; None: any free number
    host: Name
    address: Word  # the address by which the other nodes reach this one
    interface: Word


class JoinOfAnyVersion(msgspec.Struct, frozen=True, kw_only=True, tag="Join"):
    """The fields of a Join that every version of ddptui keeps. Unknown fields are ignored."""

    version: Word
    token: Annotated[str, Meta(max_length=256)]


class Beat(Tagged, frozen=True, kw_only=True):
    """A node's heartbeat, once a second."""


class LaunchEnded(Tagged, frozen=True, kw_only=True, tag="Over"):
    """No process of a launch is left on this node."""

    number: Count
    exit_code: int
    # The last part of each log, by file name.
    logs: Annotated[dict[Name, Error], Meta(max_length=MOST_LOGS)] = msgspec.field(default_factory=dict)


class Leave(Tagged, frozen=True, kw_only=True):
    """The node leaves the run, because its user ended it or because it received nothing from the console for too
    long."""


NodeMessage = Join | Beat | LaunchEnded | Leave


class Welcome(Tagged, frozen=True, kw_only=True):
    """The console has accepted the node and assigns it this number."""

    node: NodeNumber
    nodes: Count
    run: Name


class Begin(Tagged, frozen=True, kw_only=True):
    """Start the ranks of this node."""

    number: Count
    trial: Assignments  # the trial as `key=value` arguments, which from_arguments parses
    nodes: Count
    address: Word  # rendezvous address of all ranks, on node 0
    port: Annotated[int, Meta(ge=1, le=65_535)]  # rendezvous port
    init_method: Text  # if the ranks meet at a shared file instead: its URL
    hub_environment: Annotated[dict[Word, Text], Meta(max_length=8)]  # variables by which ranks reach the console


class End(Tagged, frozen=True, kw_only=True):
    """End a launch if it is still running. The node answers with LaunchEnded."""

    number: Count


class Farewell(Tagged, frozen=True, kw_only=True):
    """The console rejects the node, or the run is over."""

    why: Text
    well: bool = False  # no error: the node exits with code 0


class FarewellOfAnyVersion(msgspec.Struct, frozen=True, kw_only=True, tag="Farewell"):
    """The fields of a Farewell that every version of ddptui keeps. Unknown fields are ignored."""

    why: Text
    well: bool = False


ToNode = Welcome | Begin | End | Farewell


MOST_WARM_BYTES = 2**17  # largest message: without privileges, a socket pair accepts up to 2**17.6 bytes at once


class Imported(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """From the warm parent, once: it has imported all modules that ranks need."""

    pid: int
    threads: int  # threads of the process: must be 1, because a fork copies only the thread that calls it


class Fork(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """To the warm parent: fork a launcher. Only one runs at a time. The message carries the file descriptor of the
    launcher's log."""

    module: str  # a module of workers
    function: str  # its function that is called as the entry point
    arguments: tuple[str, ...]  # sys.argv[1:] of the launcher
    environment: dict[str, str]  # variables added to the warm parent's own, or replacing them
    folder: str  # working folder of the launcher
    launch_folder: str  # temporary folder that belongs to the launch
    open_files: tuple[int, int]  # limits of open files for the launcher and its ranks: soft and hard


class Forked(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """From the warm parent: the launcher is running."""


class ForkRefused(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """From the warm parent: it could not fork."""

    why: str


class EndFork(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """To the warm parent: end every process of the launch. Ignored if no launch is running."""


class ForkEnded(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """From the warm parent, once for each Forked: all processes of the launch have ended."""

    status: int  # exit status of the launcher, as os.wait returns it


FromParent = Imported | Forked | ForkRefused | ForkEnded
