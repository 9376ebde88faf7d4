"""The console's end of the connections to the nodes of a run. Tracks which nodes have joined, and how their launches
ended."""

import time
from typing import NamedTuple

import msgspec
import zmq

from ddptui import __version__
from ddptui.engines.gate import ConsoleSocket
from ddptui.engines.join.ticket import ticket_for
from ddptui.wire import helper_messages as wire

LOST_AFTER_S = 8.0  # timeout without a message: nodes send a Beat every second
PRESENT_EVERY_S = 2.0
OPTIONS = {zmq.MAXMSGSIZE: wire.MOST_BYTES, zmq.LINGER: 1000}  # LINGER: ms for sending a Farewell when the hub closes
LOST = f"the console received nothing from this node for {LOST_AFTER_S:g} s and continues without it: join again"
SAME_VERSION = "install the same version on both"


class Member(NamedTuple):
    """A node that has joined."""

    number: int
    identity: bytes  # the identity of its connection
    join: wire.Join  # its first message

    def __str__(self) -> str:
        return f"node {self.number} ({self.join.host}, {self.join.address})"


class NodeHub:
    """Accepts nodes with the run's ticket, exchanges messages with them, and detects lost nodes."""

    def __init__(self, run: str, nodes: int, address: str, port: int) -> None:
        """Listens at the first free port from `port` on. nodes: the number of nodes of the run. Raises OSError."""
        self.nodes = nodes
        self.members: dict[int, Member] = {}  # keyed by number
        self.ended: dict[int, wire.LaunchEnded] = {}  # how the current launch ended on each node, in order of arrival
        self._run = run
        self._launch = 0  # number of the current launch
        self._notices: list[str] = []
        self._reported_versions: set[str] = set()
        self._last_received: dict[int, float] = {}
        self._last_present = 0.0
        self._decoder = msgspec.msgpack.Decoder(wire.NodeMessage)
        self._socket = ConsoleSocket((address, port), OPTIONS)
        self.ticket = ticket_for(run, self._socket)

    def close(self, *, well: bool = True) -> None:
        """Sends a Farewell to all nodes and closes the socket. well: whether their `ddptui join` exits with code 0."""
        while self.members:
            _, member = self.members.popitem()
            self._socket.send(member.identity, wire.Farewell(why="the run is over", well=well))
        self._socket.close()

    @property
    def missing(self) -> int:
        """Number of nodes that have not joined."""
        return self.nodes - len(self.members)

    def take_notices(self) -> list[str]:
        """New notices since the last call: nodes that joined or were rejected."""
        notices, self._notices = self._notices, []
        return notices

    def send(self, node: int, message: wire.ToNode) -> None:
        """Sends a message to a node, unless it has been lost."""
        if node in self.members:
            self._socket.send(self.members[node].identity, message)

    def begin_launch(self, number: int) -> None:
        """Clears `ended`, which from now on is about this launch."""
        self._launch = number
        self.ended.clear()

    def receive(self) -> list[Member]:
        """Processes the messages that have arrived, without waiting. Returns the nodes that left or timed out."""
        lost = [member for peer in self._socket.receive() if (member := self._accept(*peer))]
        now = time.monotonic()
        silent = [number for number in self.members if now - self._last_received[number] > LOST_AFTER_S]
        lost += [self.members[number] for number in silent]
        for member in lost:
            self.members.pop(member.number, None)  # a node may join again with this number
            self._socket.send(member.identity, wire.Farewell(why=LOST))  # the node may just have been slow
        if now - self._last_present > PRESENT_EVERY_S:
            self._last_present = now
            for number in self.members:
                self.send(number, wire.Present())
        return lost

    def _accept(self, identity: bytes, frames: list[bytes]) -> Member | None:
        """Processes one message. Returns the node if it leaves the run, else None."""
        member = next((member for member in self.members.values() if member.identity == identity), None)
        try:
            [frame] = frames
            if member is None and self._reject_other_version(identity, frame):
                return None
            message = self._decoder.decode(frame)
        except (ValueError, RecursionError):
            return None  # from an unknown peer, or from a member, which then times out
        if member is None:
            if isinstance(message, wire.Join):
                self._welcome(identity, message)
            return None
        self._last_received[member.number] = time.monotonic()
        if isinstance(message, wire.LaunchEnded) and message.number == self._launch:  # ignores earlier launches
            self.ended.setdefault(member.number, message)
        return member if isinstance(message, wire.Leave) else None

    def _reject_other_version(self, identity: bytes, frame: bytes) -> bool:
        """Rejects a Join from another version of ddptui, with a Farewell that names both versions. Returns whether it
        was one."""
        try:  # before the message is fully decoded, because another version may have other fields
            join = msgspec.msgpack.decode(frame, type=wire.JoinOfAnyVersion)
        except ValueError:
            return False
        if not self._socket.has_token(join.token) or join.version == __version__:
            return False
        versions = f"has ddptui {join.version}, the console {__version__}: {SAME_VERSION}"
        self._socket.send(identity, wire.Farewell(why=f"this node {versions}"))
        if join.version not in self._reported_versions:  # report it once, even if the node tries again
            self._reported_versions.add(join.version)
            self._notices.append(f"a node was rejected: it {versions}")
        return True

    def _welcome(self, identity: bytes, join: wire.Join) -> None:
        if not self._socket.has_token(join.token):
            return
        free = next((number for number in range(self.nodes) if number not in self.members), self.nodes)
        number = free if join.node is None else join.node
        why = ""
        if number in self.members:
            why = f"{self.members[number]} has joined already: choose another --node"
        elif not 0 <= number < self.nodes:
            why = f"no node {number}: this run has nodes 0 to {self.nodes - 1}"
            if join.node is None:
                why = f"all {self.nodes} nodes of this run have joined already"
        if why:
            self._socket.send(identity, wire.Farewell(why=why))
            return
        member = Member(number, identity, join)
        self.members[number] = member
        self._last_received[number] = time.monotonic()
        self._socket.send(identity, wire.Welcome(node=number, nodes=self.nodes, run=self._run))
        self._notices.append(f"{member} has joined by {join.interface}: {len(self.members)} of {self.nodes} nodes")
