"""The console's end of the connections to the ranks. Each launch has one socket: a Unix socket in a folder that only
this user can enter, or a TCP socket that accepts only peers with this launch's keys (CURVE).

Messages are untrusted. A frame is accepted only if it decodes strictly, and if the first message of its peer was a
Hello with the token of this launch. All other frames are rejected and counted. A peer with the right token but a wrong
rank, world size or version is sent a Stop.
"""

import os
import tempfile
from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec
import zmq
from msgspec.structs import replace

from ddptui import __version__
from ddptui.engines.sockets import ConsoleSocket
from ddptui.host import folders
from ddptui.wire.connection import HUB, KEYS_VARIABLE, TOKEN
from ddptui.wire.limits import MOST_BYTES_A_FRAME
from ddptui.wire.messages import VERSION, Failed, Heartbeat, Hello, HelloOfAnyVersion, Position, RankMessage, Step
from ddptui.wire.records import ConsoleMessage, Look, SetBottleneck, Stop

LONGEST_FOLDER_PATH = 45  # bytes: the path of a socket has at most 107, also in the subfolders of a rank's forkserver
MOST_BYTES_OF_A_STRANGER = 64 * 2**10  # limit for a peer's first frame: a Hello is short
OPTIONS = {
    zmq.MAXMSGSIZE: MOST_BYTES_A_FRAME,  # libzmq disconnects a peer that sends a larger frame, before reading it
    zmq.RCVHWM: 64,  # queue of received frames per peer: what a rank sends in 13 s
    zmq.SNDHWM: 100,  # queue of sent frames per peer; further messages to the peer are dropped
    zmq.LINGER: 200,  # ms for sending the last messages when the hub closes
}

STANDING = (SetBottleneck, Look)  # what a rank that connects later, or again, must be sent

# Why a frame or message is rejected; the text follows "3 messages refused: ".
UNDECODABLE = "a message that could not be decoded"
NO_TOKEN = "a connection without this launch's token"
LONG_FRAME = "a first message that is too long"


class RankServer(AbstractContextManager["RankServer"]):
    """Receives messages from the ranks of one launch, and sends them messages."""

    def __init__(self, world_size: int, at: tuple[str, int] | None = None) -> None:
        """world_size: number of ranks; 0 for the user's own training, whose first rank reports it. at: an address of
        this host and the first port to try; None: a Unix socket. Raises OSError."""
        self.world_size = world_size
        self._may_start_again = world_size == 0  # ranks of ddptui's own launches are never restarted
        self.hellos: dict[int, Hello] = {}  # the Hello of each connected rank
        self.refused = 0  # number of rejected frames and messages
        self.first_refusal = ""  # why the first one was rejected
        self.other_version = ""  # an error, if a rank uses another version of the protocol
        self._temporary = _new_folder()  # temporary folder of the launch, deleted when the hub is closed
        self.folder = self._temporary.path
        self._rank_of: dict[bytes, int] = {}
        self._next_step = 0  # one more than the highest step number so far
        self._first_of_restart = 0  # number of the first step after the last restart
        self._first_step: dict[bytes, int] = {}  # number of the first step of each restarted rank
        self._gone: set[bytes] = set()  # identities of processes that were replaced by a restart
        self._standing: dict[type[ConsoleMessage], ConsoleMessage] = {}  # the last one of each kind in STANDING
        self._decoder = msgspec.msgpack.Decoder(list[RankMessage])
        try:
            self.socket = ConsoleSocket(at or f"ipc://{self.folder}/hub", OPTIONS)
        except OSError:
            self._temporary.remove()
            raise
        self.endpoint, self.token = self.socket.endpoint, self.socket.token

    @property
    def rank_environment(self) -> dict[str, str]:
        """The environment variables by which a rank connects to this hub."""
        keys = {KEYS_VARIABLE: self.socket.keys.spell()} if self.socket.keys else {}
        return {HUB: self.endpoint, TOKEN: self.token} | keys

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the socket and deletes the folder."""
        self.socket.close()
        self._temporary.remove()

    def receive(self, timeout_ms: int) -> list[RankMessage]:
        """The accepted messages that have arrived. Waits at most timeout_ms for the first."""
        messages: list[RankMessage] = []
        for identity, frames in self.socket.receive(timeout_ms):
            messages += self._accept(identity, frames)
        return messages

    def send(self, message: ConsoleMessage, ranks: Iterable[int] | None = None) -> None:
        """Sends a message to these ranks; None: to all connected ranks."""
        if isinstance(message, STANDING):
            self._standing[type(message)] = message
        receivers = self.hellos if ranks is None else set(ranks)
        for identity, rank in self._rank_of.items():
            if rank in receivers:
                self.socket.send(identity, message)

    def _accept(self, identity: bytes, frames: list[bytes]) -> list[RankMessage]:
        if identity in self._gone:
            return []
        newcomer = identity not in self._rank_of
        try:
            [frame] = frames
            if newcomer and len(frame) > MOST_BYTES_OF_A_STRANGER:
                return self._refuse(LONG_FRAME)
            messages = self._decoder.decode(frame)
        except (ValueError, RecursionError):  # msgspec.DecodeError is a ValueError
            return self._refuse_undecodable(identity, frames) if newcomer else self._refuse(UNDECODABLE)
        if newcomer and not self._welcome(identity, messages):
            return []
        rank = self._rank_of[identity]
        accepted: list[RankMessage] = messages[:1] if newcomer else []
        # a rank may only send messages with its own number, and only one Hello
        accepted += [m for m in messages[len(accepted) :] if m.rank == rank and not isinstance(m, Hello)]
        if refused := len(messages) - len(accepted):
            self._refuse(f"rank {rank} sent messages of another rank, or a second Hello", refused)
        if first := self._first_step.get(identity):
            accepted = [_numbered_from(first, message) for message in accepted]
        for message in accepted:
            match message:
                case Step(step=step) | Failed(position=Position(step=int(step))):
                    self._next_step = max(self._next_step, step + 1)
        return accepted

    def _refuse_undecodable(self, identity: bytes, frames: list[bytes]) -> list[RankMessage]:
        """Rejects a peer's first message. The peer is sent a Stop if this was a Hello of another protocol version."""
        try:
            [frame] = frames
            first = msgspec.msgpack.decode(frame, type=list[msgspec.Raw])[0]  # the rest may have unknown fields
            hello = msgspec.msgpack.decode(first, type=HelloOfAnyVersion)
        except (ValueError, RecursionError, IndexError):
            return self._refuse(UNDECODABLE)
        if not self.socket.has_token(hello.token):
            return self._refuse(NO_TOKEN)
        if hello.version == VERSION:
            return self._refuse(UNDECODABLE)
        return self._turn_away(identity, self._say_versions(hello))

    def _refuse(self, why: str, count: int = 1) -> list[RankMessage]:
        self.refused += count
        self.first_refusal = self.first_refusal or why
        return []

    def _welcome(self, identity: bytes, messages: list[RankMessage]) -> bool:
        """Accepts a new peer if its first message is a Hello with the right token, version, rank and world size.
        Returns whether it was accepted."""
        hello = messages[0] if messages else None
        if not isinstance(hello, Hello) or not self.socket.has_token(hello.token):
            self._refuse(NO_TOKEN)
            return False
        why = ""
        if hello.version != VERSION:
            why = self._say_versions(hello)
        elif hello.world_size != (self.world_size or hello.world_size) or not 0 <= hello.rank < hello.world_size:
            why = f"rank {hello.rank} of {hello.world_size} connected to a launch of {self.world_size} ranks"
        elif self._is_here(hello.rank):
            why = f"a second process connected as rank {hello.rank}"
        if why:
            self._turn_away(identity, why)
            return False
        self.world_size = hello.world_size
        if hello.rank in self.hellos:
            self._take_place(identity, hello.rank)
        self._rank_of[identity] = hello.rank
        self.hellos[hello.rank] = hello
        for standing in self._standing.values():
            self.socket.send(identity, standing)
        return True

    def _is_here(self, rank: int) -> bool:
        """Whether a process is connected as this rank; if ranks cannot be restarted, whether one ever was."""
        if rank not in self.hellos:
            return False
        return not self._may_start_again or self.socket.is_connected(self._identity_of(rank))

    def _identity_of(self, rank: int) -> bytes:
        return next(identity for identity, known in self._rank_of.items() if known == rank)

    def _take_place(self, identity: bytes, rank: int) -> None:
        """Replaces the process of a rank that was restarted. Its step numbers continue after those before, from the
        same number for all ranks that were restarted together."""
        gone = self._identity_of(rank)
        del self._rank_of[gone]
        self._gone.add(gone)
        if self._first_step.pop(gone, 0) == self._first_of_restart:
            # One number is left out, so that the restart does not count as time between two steps.
            self._first_of_restart = self._next_step + 1
        self._first_step[identity] = self._first_of_restart

    def _turn_away(self, identity: bytes, why: str) -> list[RankMessage]:
        self.socket.send(identity, Stop(why=why))
        return self._refuse(why)

    def _say_versions(self, hello: Hello | HelloOfAnyVersion) -> str:
        self.other_version = (
            f"rank {hello.rank} speaks version {hello.version} of ddptui's protocol, this console version {VERSION}: "
            f"install ddptui {__version__} where the ranks run, too"
        )
        return self.other_version


def _numbered_from(first: int, message: RankMessage) -> RankMessage:
    """The message, with its step number shifted for a rank whose first step has the number `first`."""
    match message:
        case Step(step=step):
            return replace(message, step=first + step)
        case Heartbeat(position=Position(step=int(step)) as position):
            return replace(message, position=replace(position, step=first + step))
        case Failed(position=Position(step=int(step)) as position):
            return replace(message, position=replace(position, step=first + step))
    return message


def _new_folder() -> folders.TemporaryFolder:
    """Creates a folder of mode 0700 whose path is short enough for a socket. Deletes those left by killed consoles."""
    parent = Path(tempfile.gettempdir())
    if len(os.fsencode(parent)) > LONGEST_FOLDER_PATH:
        parent = Path("/tmp")
    return folders.TemporaryFolder("ddptui-hub", parent)
