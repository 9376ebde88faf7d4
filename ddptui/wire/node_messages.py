"""Every message between a console and a node that has joined its run. As in wire.py: MessagePack, decoded by type."""

from typing import Annotated

import msgspec
from msgspec import Meta

from ddptui.wire.limits import Count, Error, Name, Word

MOST_BYTES = 2**20
MEETING_MARK = "ddptui-meeting-"  # what the names of files begin with at which ranks meet
MOST_LOGS = 2048

NodeNumber = Annotated[int, Meta(ge=0, lt=1024)]
Assignments = Annotated[tuple[Annotated[str, Meta(max_length=65_536)], ...], Meta(max_length=200)]
Text = Annotated[str, Meta(max_length=2048)]


class _Message(msgspec.Struct, frozen=True, kw_only=True, tag=True, forbid_unknown_fields=True):
    pass


class Join(_Message, frozen=True, kw_only=True):
    """A node is there. The first message of every node. node: the number that it wants; none: whichever is left."""

    version: Word
    token: Annotated[str, Meta(max_length=256)]
    node: int | None
    host: Name
    address: Word  # by which the other nodes reach it
    interface: Word
    cores: Count


class JoinOfAnyVersion(msgspec.Struct, frozen=True, kw_only=True, tag="Join"):
    """The fields of a Join that every version of ddptui keeps. Unknown fields are ignored."""

    version: Word
    token: Annotated[str, Meta(max_length=256)]


class Beat(_Message, frozen=True, kw_only=True):
    """Once a second: the node is there."""


class Over(_Message, frozen=True, kw_only=True):
    """A launch has ended on this node, and none of its processes is left. logs: the end of each, by its file's name."""

    number: Count
    exit_code: int
    logs: Annotated[dict[Name, Error], Meta(max_length=MOST_LOGS)] = {}


class Leave(_Message, frozen=True, kw_only=True):
    """The node goes, by the will of whoever is there."""


NodeMessage = Join | Beat | Over | Leave


class Welcome(_Message, frozen=True, kw_only=True):
    """The node takes part, under this number."""

    node: NodeNumber
    nodes: Count
    run: Name


class Begin(_Message, frozen=True, kw_only=True):
    """Start the ranks of this node. trial: as from_arguments reads it; address and port: where all ranks meet, on node
    0; init_method: or the file; way: how a rank reaches the console, as variables of its environment."""

    number: Count
    trial: Assignments
    nodes: Count
    address: Word
    port: Annotated[int, Meta(ge=1, le=65_535)]
    init_method: Text
    way: Annotated[dict[Word, Text], Meta(max_length=8)]


class End(_Message, frozen=True, kw_only=True):
    """End a launch, if it is still there; it is answered by Over."""

    number: Count


class Present(_Message, frozen=True, kw_only=True):
    """Every few seconds: the console is there."""


class Farewell(_Message, frozen=True, kw_only=True):
    """The node is not wanted, or no longer. well: all has been done."""

    why: Text
    well: bool = False


class FarewellOfAnyVersion(msgspec.Struct, frozen=True, kw_only=True, tag="Farewell"):
    """The fields of a Farewell that every version of ddptui keeps. Unknown fields are ignored."""

    why: Text
    well: bool = False


ToNode = Welcome | Begin | End | Present | Farewell
