"""The engine `join`: starts launches on nodes that have joined the run by `ddptui join`, and keeps the connections
to them.

Tracks which nodes have joined, and how their launches ended.
"""

import os
import secrets
import shlex
import time
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import msgspec
import zmq

from ddptui import __version__
from ddptui.config.catalog import ONE_PROCESS
from ddptui.config.preset import EngineOptions, NodeRanks, spread, start_of
from ddptui.config.trial import Trial
from ddptui.config.values import to_arguments
from ddptui.engines import base as launch
from ddptui.engines.base import LAUNCHER_LOG, REMOTE_SILENCE_S, Engine, Launch
from ddptui.engines.join.ticket import ticket_for
from ddptui.engines.rank_server import RankServer
from ddptui.engines.sockets import ConsoleSocket
from ddptui.host.folders import write_private
from ddptui.host.network import choose_interface, port_of
from ddptui.store.journal import RepeatJournal
from ddptui.store.runs import Run
from ddptui.wire import helper_messages as wire
from ddptui.wire.connection import SILENCE_S
from ddptui.wire.helper_messages import MEETING_MARK, Begin, End

LOST_AFTER_S = 8.0  # timeout without a message: nodes send a Beat every second
OPTIONS = {zmq.MAXMSGSIZE: wire.MOST_BYTES, zmq.LINGER: 1000}  # LINGER: ms for sending a Farewell when the hub closes
LOST = f"the console received nothing from this node for {LOST_AFTER_S:g} s and continues without it: join again"
SAME_VERSION = "install the same version on both"


@dataclass
class Member:
    """A node that has joined."""

    number: int
    identity: bytes  # the identity of its connection
    join: wire.Join  # its first message
    last_received: float  # the time of its last message, by time.monotonic()

    def __str__(self) -> str:
        return f"node {self.number} ({self.join.host}, {self.join.address})"


class NodeServer:
    """Accepts nodes with the run's ticket, exchanges messages with them, and detects lost nodes."""

    def __init__(self, run: str, nodes: int, address: str, port: int) -> None:
        """Listens at the first free port from `port` on. nodes: the number of nodes of the run. Raises OSError."""
        self.nodes = nodes
        self.members: dict[int, Member] = {}  # keyed by number
        self.ended: dict[int, wire.LaunchEnded] = {}  # how the current launch ended on each node, in order of arrival
        self._run = run
        self._launch = 0  # number of the current launch
        self._notices: list[str] = []
        self._decoder = msgspec.msgpack.Decoder(wire.NodeMessage)
        self._socket = ConsoleSocket((address, port), OPTIONS)
        self.ticket = ticket_for(run, self._socket)

    def close(self) -> None:
        """Sends a Farewell to all nodes, whose `ddptui join` then exits with code 0, and closes the socket."""
        while self.members:
            _, member = self.members.popitem()
            self._socket.send(member.identity, wire.Farewell(why="the run is over", well=True))
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
        lost += [member for member in self.members.values() if now - member.last_received > LOST_AFTER_S]
        for member in lost:
            self.members.pop(member.number, None)  # a node may join again with this number
            self._socket.send(member.identity, wire.Farewell(why=LOST))  # the node may just have been slow
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
        member.last_received = time.monotonic()
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
        self.members[number] = member = Member(number, identity, join, time.monotonic())
        self._socket.send(identity, wire.Welcome(node=number, nodes=self.nodes, run=self._run))
        self._notices.append(f"{member} has joined by {join.interface}: {len(self.members)} of {self.nodes} nodes")


TICKET = "ticket"  # the ticket's file in the run's folder, which exists during the run
FIRST_MEETING = 1000  # offset from the console's port to the first rendezvous port
STOP_WITHIN_S = 15.0  # time for nodes to end their ranks: a keeper takes up to 4 s
POLL_S = 0.02


class JoinEngine(Engine):
    """Starts launches on the nodes that have joined."""

    def __init__(self, options: EngineOptions, run: Run, ticket: str = TICKET) -> None:
        """Listens for nodes, and writes the ticket. Raises OSError, and NetworkError."""
        self.options = options
        self.run = run.name
        self._address = choose_interface(options.interface).address
        self._port = options.port or port_of(run.name)
        self.numbers = count(1)  # numbers of launches
        self.listen(run.folder.absolute() / ticket)

    def listen(self, ticket: Path) -> None:
        """Starts listening for nodes, and writes a new ticket to this file. Raises OSError."""
        self.ticket_file = ticket
        self.node_hub = NodeServer(self.run, self.options.nodes, self._address, self._port)
        write_private(self.ticket_file, self.node_hub.ticket.spell() + "\n")

    def command(self, trial: Trial, repeat: RepeatJournal) -> list[str]:
        """The command of node 0."""
        return launch.rank_command(trial, part=parts_of(trial, self.options.nodes)[0], python="python")

    def environment(self, trial: Trial) -> dict[str, str]:
        part = parts_of(trial, self.options.nodes)[0]
        return part.environment() if trial.launch not in ONE_PROCESS else {}

    def open_hub(self, world_size: int) -> RankServer:
        return RankServer(world_size, at=(self._address, self._port + 1))  # the socket for nodes has the first port

    def start(self, trial: Trial, command: list[str], repeat: RepeatJournal, hub: RankServer) -> "JoinedLaunch":
        """A launch that begins once all nodes have joined."""
        return JoinedLaunch(self, trial, repeat, hub)

    def close(self) -> str | None:
        """Sends a Farewell to the nodes, and deletes the ticket."""
        self.node_hub.close()
        with suppress(OSError):
            self.ticket_file.unlink()
        return None


def parts_of(trial: Trial, nodes: int, address: str = "NODE_0", port: int = 0) -> list[NodeRanks]:
    """The part of each node, with consecutive ranks. A trial of one process has one part."""
    blocks = spread(1 if trial.launch in ONE_PROCESS else trial.world_size, nodes)
    return [NodeRanks(node, len(blocks), ranks, address, port) for node, ranks in enumerate(blocks)]


@dataclass
class JoinedLaunch(Launch):
    """A launch on the nodes. It begins when all nodes have joined."""

    engine: JoinEngine
    trial: Trial
    repeat: RepeatJournal
    hub: RankServer
    _parts: list[NodeRanks] = field(default_factory=list)  # empty until the launch begins
    _lost: Member | None = None  # the first node that was lost
    _missing: int = 0  # number of missing nodes at the last check

    def __post_init__(self) -> None:
        self.node_hub, self._number = self.engine.node_hub, next(self.engine.numbers)
        self.start, self.start_why = start_of(self.trial, len(parts_of(self.trial, self.node_hub.nodes)))
        folder = Path(self.engine.options.shared or "").absolute()
        self._meeting = f"file://{folder}/{MEETING_MARK}{secrets.token_hex(8)}"  # for init_method = "file"

    @property
    def is_waiting(self) -> bool:
        return not self._parts

    @property
    def exit_code(self) -> int | None:
        """The exit code of the first node that failed; 0 when all nodes have ended well; None while they run."""
        if self.is_waiting:
            return None
        if self._lost:
            return 1
        codes = [ended.exit_code for ended in self.node_hub.ended.values()]
        failed = next((code for code in codes if code), None)
        return failed if failed is not None else 0 if len(codes) == len(self._parts) else None

    def take_notices(self) -> list[str]:
        waits = self._waits()  # first, so that the notice does not depend on when nodes join
        return waits + self.advance()

    def advance(self) -> list[str]:
        """Receives messages from the nodes, and begins the launch when all have joined. Returns notices about nodes
        that joined or were rejected."""
        self._receive()
        if self.is_waiting and not self.node_hub.missing:
            self._begin()
        return self.node_hub.take_notices()

    def _waits(self) -> list[str]:
        """A notice about missing nodes, at the beginning and after a node has left. (A node that joins causes a notice
        of its own.)"""
        before, missing = self._missing, self.node_hub.missing
        self._missing = missing
        if not self.is_waiting or missing <= before:
            return []
        nodes, ticket = "a node" if missing == 1 else f"{missing} nodes", short(self.engine.ticket_file)
        return [f"waiting for {nodes}: run `ddptui join {ticket}` there, or pass the line in that file"]

    def _receive(self) -> None:
        numbers = {part.node for part in self._parts}  # a small trial may need fewer nodes than have joined
        lost = [member for member in self.node_hub.receive() if member.number in numbers]
        self._lost = self._lost or next(iter(lost), None)

    def _begin(self) -> None:
        self.node_hub.begin_launch(self._number)
        address = self.node_hub.members[0].join.address
        port = port_of(self.engine.run, FIRST_MEETING + self._number)  # the last one may still be closing
        self._parts = parts_of(self.trial, self.node_hub.nodes, address, port)
        for part in self._parts:
            begin = Begin(
                number=self._number,
                trial=(f"launch={self.trial.launch}", *to_arguments(self.trial)),
                nodes=part.nodes,
                address=part.address,
                port=part.port,
                init_method=self._meeting,
                hub_environment=self.hub.rank_environment | {SILENCE_S: REMOTE_SILENCE_S},
            )
            self.node_hub.send(part.node, begin)

    def lost_node(self) -> str | None:
        """A sentence about the first node that was lost, with its ranks; None: no node was lost."""
        if self._lost is None:
            return None
        ranks = next(part.ranks for part in self._parts if part.node == self._lost.number)
        lost_ranks = f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {ranks[0]} to {ranks[-1]}"
        return f"{self._lost} was lost, with {lost_ranks}: it was disconnected, or its `ddptui join` ended"

    def end_reason(self) -> str | None:
        lost = self.lost_node()
        return f"{lost}. Check the host, and join again" if lost else None

    def stop(self) -> None:
        for part in self._parts:
            self.node_hub.send(part.node, End(number=self._number))
        nodes, node_hub = {part.node for part in self._parts}, self.node_hub
        deadline = time.monotonic() + STOP_WITHIN_S  # ranks of a node that does not answer end after REMOTE_SILENCE_S
        # until all nodes that are not lost have ended their ranks
        while nodes & node_hub.members.keys() - node_hub.ended.keys() and time.monotonic() < deadline:
            self._receive()  # may find that a node is lost, which explains why the others failed
            time.sleep(POLL_S)
        self._keep_logs()
        if self.trial.init_method == "file":
            with suppress(OSError):  # torch may have deleted it
                Path(self._meeting.removeprefix("file://")).unlink()

    def _keep_logs(self) -> None:
        """Writes the logs that the nodes have sent: those of all ranks, and of one launcher."""
        ended = list(self.node_hub.ended.values())
        # the launcher of the first node that failed: the others ended because of it, or the console ended them
        first = next((node for node in ended if node.exit_code), ended[0] if ended else None)
        # a node must not write other files into the run's folder
        allowed = {f"rank-{rank}.log" for rank in range(self.trial.world_size)}
        for node in ended:
            for name, text in node.logs.items():
                if name in allowed or (name == LAUNCHER_LOG and node is first):
                    with suppress(OSError):
                        (self.repeat.folder / name).write_text(text, encoding="utf-8")


def short(path: Path) -> str:
    """The path, quoted for a shell, with ~ for the user's home."""
    home = Path(os.path.expanduser("~"))  # stays ~ if the user has no home
    return f"~/{shlex.quote(str(path.relative_to(home)))}" if path.is_relative_to(home) else shlex.quote(str(path))
