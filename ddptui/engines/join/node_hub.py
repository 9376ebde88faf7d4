"""The console's end of what nodes say that have joined a run: who is there, and what has become of it."""

import hmac
import secrets
import time
from collections.abc import Iterator
from typing import NamedTuple

import msgspec
import zmq

from ddptui import __version__
from ddptui.engines.gate import CurveServer, bind_near, network_gate
from ddptui.engines.join.ticket import Ticket
from ddptui.wire.node_messages import (
    MOST_BYTES,
    Beat,
    Farewell,
    Join,
    JoinOfAnyVersion,
    Leave,
    NodeMessage,
    Over,
    Present,
    ToNode,
    Welcome,
)

LOST_AFTER_S = 8.0  # without a word; nodes beat once a second
PRESENT_EVERY_S = 2.0
MOST_AT_ONCE = 256  # frames
HANDSHAKE_MS = 5_000


class Member(NamedTuple):
    """A node that has joined."""

    number: int
    identity: bytes
    words: Join

    def __str__(self) -> str:
        return f"node {self.number} ({self.words.host}, {self.words.address})"


class NodeHub:
    """`nodes`: who is there, by number; `news`: what nobody has been told yet."""

    def __init__(self, run: str, nodes: int, address: str, port: int) -> None:
        """Raises OSError."""
        self.wanted = nodes
        self.nodes: dict[int, Member] = {}
        self.news: list[str] = []
        self._turned_away: set[str] = set()  # versions
        self._run = run
        self._heard: dict[int, float] = {}
        self._under_way = 0  # which launch
        self._overs: dict[int, Over] = {}  # how it ended, by node, in the order in which they said so
        self._present = 0.0
        self._token = secrets.token_hex(16)
        self._decoder = msgspec.msgpack.Decoder(NodeMessage)
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.setsockopt(zmq.MAXMSGSIZE, MOST_BYTES)
        self._socket.setsockopt(zmq.LINGER, 1000)
        self._socket.setsockopt(zmq.HANDSHAKE_IVL, HANDSHAKE_MS)
        self._lock = CurveServer(self._context, self._socket)
        try:
            endpoint = bind_near(self._socket, address, port)
        except OSError:
            self._end()
            raise
        self._gate = network_gate(self._socket)
        self.ticket = Ticket(run=run, endpoint=endpoint, token=self._token, keys=self._lock.keys)

    def close(self, *, well: bool = True) -> None:
        for there in self.nodes.values():
            self._send(there.identity, Farewell(why="the run is over", well=well))
        self._socket.disable_monitor()
        self._gate.knocks.close()
        self._end()

    def _end(self) -> None:
        self._socket.close()
        self._lock.close()
        self._context.term()

    @property
    def missing(self) -> int:
        return self.wanted - len(self.nodes)

    def tell(self, node: int, message: ToNode) -> None:
        if node in self.nodes:
            self._send(self.nodes[node].identity, message)

    def begin(self, number: int) -> None:
        """A launch begins: how the one before has ended is of no use any more."""
        self._under_way = number
        self._overs.clear()

    @property
    def overs(self) -> dict[int, Over]:
        """How the launch under way has ended, by node, in the order in which they said so."""
        return self._overs

    def receive(self) -> list[Member]:
        """Take in what has come, without waiting. Returns the nodes that are lost: silent for long, or gone."""
        self._gate.look()
        gone = [there for frames in self._frames() if (there := self._accept(*frames))]
        now = time.monotonic()
        gone += [there for number, there in self.nodes.items() if now - self._heard[number] > LOST_AFTER_S]
        for there in gone:
            self.nodes.pop(there.number, None)
        if now - self._present > PRESENT_EVERY_S:
            self._present = now
            for number in self.nodes:
                self.tell(number, Present())
        return gone

    def _frames(self) -> Iterator[tuple[bytes, list[bytes]]]:
        for _ in range(MOST_AT_ONCE):
            try:
                identity, *frames = self._socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            yield identity, frames

    def _accept(self, identity: bytes, frames: list[bytes]) -> Member | None:
        """One message. Returns the node that has left by it."""
        there = next((there for there in self.nodes.values() if there.identity == identity), None)
        try:
            [frame] = frames
            if there is None and self._is_of_another_version(identity, frame):
                return None
            message = self._decoder.decode(frame)
        except (ValueError, RecursionError):
            return None
        if there is None:
            if isinstance(message, Join):
                self._welcome(identity, message)
            return None
        self._heard[there.number] = time.monotonic()
        match message:
            case Over():
                if message.number == self._under_way:
                    self._overs.setdefault(there.number, message)
            case Leave():
                return there
            case Beat() | Join():
                pass
        return None

    def _is_of_another_version(self, identity: bytes, frame: bytes) -> bool:
        """Whether this is a Join from another version of ddptui. Its other fields may differ, so they are not decoded:
        the node is sent away first, with the two versions."""
        try:
            join = msgspec.msgpack.decode(frame, type=JoinOfAnyVersion)
        except ValueError:
            return False
        if not self._has_token(join) or join.version == __version__:
            return False
        remedy = "install the same version on both"
        self._send(identity, Farewell(why=f"this node has ddptui {join.version}, the console {__version__}: {remedy}"))
        if join.version not in self._turned_away:  # reported once, however often the node tries
            self._turned_away.add(join.version)
            self.news.append(
                f"a node was turned away: it has ddptui {join.version}, this console {__version__}: {remedy}"
            )
        return True

    def _has_token(self, join: Join | JoinOfAnyVersion) -> bool:
        return hmac.compare_digest(join.token.encode(), self._token.encode())

    def _welcome(self, identity: bytes, words: Join) -> None:
        if not self._has_token(words):
            return
        number = self._place(words)
        if why := self._misfit(words, number):
            self._send(identity, Farewell(why=why))
            return
        there = Member(number, identity, words)
        self.nodes[number] = there
        self._heard[number] = time.monotonic()
        self._send(identity, Welcome(node=number, nodes=self.wanted, run=self._run))
        self.news.append(f"{there} has joined by {words.interface}: {len(self.nodes)} of {self.wanted} nodes are here")

    def _place(self, words: Join) -> int:
        """The number of a node: the one that it asks for, or the first that is free."""
        if words.node is not None:
            return words.node
        return next((number for number in range(self.wanted) if number not in self.nodes), self.wanted)

    def _misfit(self, words: Join, number: int) -> str:
        if not 0 <= number < self.wanted:
            return f"all {self.wanted} nodes are here" if words.node is None else f"no node {number} of {self.wanted}"
        return f"node {number} is here already: {self.nodes[number]}" if number in self.nodes else ""

    def _send(self, identity: bytes, message: ToNode) -> None:
        self._socket.send_multipart([identity, msgspec.msgpack.encode(message)])
