"""The console's end of the connections to the ranks: one socket a launch, in a folder that only this user can enter; or
on the network, where CURVE accepts only peers with this launch's keys.

Messages are untrusted. A frame counts only if it decodes strictly, and if its peer's first message was a Hello with the
token of this launch. All other frames are refused and counted. A peer with the token that does not fit is sent a Stop.
"""

import hmac
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Self

import msgspec
import zmq

from ddptui import __version__
from ddptui.engines.gate import CurveServer, bind_near, local_gate, network_gate
from ddptui.host import folders
from ddptui.wire.connection import HUB, KEYS, TOKEN
from ddptui.wire.limits import MOST_BYTES_A_FRAME
from ddptui.wire.messages import VERSION, Hello, HelloOfAnyVersion, RankMessage
from ddptui.wire.records import ConsoleMessage, Stop

LONGEST_FOLDER_PATH = 45  # bytes: the path of a socket has at most 107, those of a rank's forkserver below it, too
MOST_FRAMES_AT_ONCE = 256  # so that a flood of frames does not keep the caller from its other work
MOST_BYTES_AT_ONCE = 8 * 2**20  # likewise; decoded, messages take up to ten times as much memory
MOST_BYTES_OF_A_STRANGER = 64 * 2**10  # a peer's first frame: a Hello is short
MOST_FRAMES_WAITING = 64  # received but not read, per peer: what a rank sends in 13 s
MOST_FRAMES_UNREAD = 100  # sent but not read, per peer; further messages to it are dropped
HANDSHAKE_MS = 5_000  # a peer that has shown no key by then is disconnected

# Why a frame or message is refused; the text follows "3 messages refused: ".
UNDECODABLE = "a message that could not be decoded"
NO_TOKEN = "a connection without this launch's token"
LONG_FRAME = "a first message that is too long"


class Hub:
    """Receives the messages of the ranks of one launch, and sends them the console's.

    hellos          the Hello of each connected rank
    refused         number of refused frames and messages; first_refusal: why the first one was
    other_version   that a rank speaks another version of the protocol, and what to do; empty: none does
    folder          belongs to the launch: its contents are deleted when the hub is closed
    """

    def __init__(self, world_size: int, at: tuple[str, int] | None = None) -> None:
        """`at`: an address of this host, and the first port to try; None: a Unix socket, for ranks of this host.

        Raises OSError.
        """
        self.world_size = world_size
        self.token = secrets.token_hex(16)
        self.hellos: dict[int, Hello] = {}
        self.refused = 0
        self.first_refusal = ""
        self.other_version = ""
        self.folder = _new_folder()
        self._rank_of: dict[bytes, int] = {}
        self._decoder = msgspec.msgpack.Decoder(list[RankMessage])
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.setsockopt(zmq.MAXMSGSIZE, MOST_BYTES_A_FRAME)
        self._socket.setsockopt(zmq.RCVHWM, MOST_FRAMES_WAITING)
        self._socket.setsockopt(zmq.SNDHWM, MOST_FRAMES_UNREAD)
        self._socket.setsockopt(zmq.LINGER, 200)
        self._socket.setsockopt(zmq.HANDSHAKE_IVL, HANDSHAKE_MS)
        self._curve = CurveServer(self._context, self._socket) if at else None
        try:
            self.endpoint = bind_near(self._socket, *at) if at else f"ipc://{self.folder}/hub"
            self._gate = network_gate(self._socket) if at else local_gate(self._socket, self.endpoint)
        except OSError:
            self._close_socket()
            raise
        self._poller = zmq.Poller()
        for socket in (self._socket, self._gate.connections):
            self._poller.register(socket, zmq.POLLIN)

    @property
    def rank_environment(self) -> dict[str, str]:
        """The variables with which a rank connects to this hub."""
        keys = {KEYS: self._curve.keys.spell()} if self._curve else {}
        return {HUB: self.endpoint, TOKEN: self.token} | keys

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the socket, and deletes the folder."""
        self._socket.disable_monitor()
        self._gate.connections.close()
        self._close_socket()

    def _close_socket(self) -> None:
        self._socket.close()
        if self._curve:
            self._curve.close()
        self._context.term()
        shutil.rmtree(self.folder, ignore_errors=True)

    def receive(self, timeout_ms: int) -> list[RankMessage]:
        """The messages that have arrived, waiting at most `timeout_ms` for the first."""
        messages: list[RankMessage] = []
        if not self._wait(timeout_ms):
            return messages
        count = size = 0
        while count < MOST_FRAMES_AT_ONCE and size < MOST_BYTES_AT_ONCE:
            try:
                identity, *frames = self._socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                break
            messages += self._accept(identity, frames)
            count, size = count + 1, size + sum(map(len, frames))
        return messages

    def _wait(self, timeout_ms: int) -> bool:
        """Waits for a message, and updates the gate meanwhile. False: none came in time."""
        deadline = time.monotonic() + timeout_ms / 1000
        while True:
            self._gate.update()
            left_ms = max(0, round(1000 * (deadline - time.monotonic())))
            if self._socket in dict(self._poller.poll(left_ms)):
                return True
            if not left_ms:
                return False

    def send(self, message: ConsoleMessage, ranks: Iterable[int] | None = None) -> None:
        """Sends to these ranks; None: to all that are connected."""
        receivers = self.hellos if ranks is None else set(ranks)
        for identity, rank in self._rank_of.items():
            if rank in receivers:
                self._send(identity, message)

    def _send(self, identity: bytes, message: ConsoleMessage) -> None:
        self._socket.send_multipart([identity, msgspec.msgpack.encode(message)])

    def _accept(self, identity: bytes, frames: list[bytes]) -> list[RankMessage]:
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
        # a rank speaks only for itself, and says Hello only once
        accepted += [m for m in messages[len(accepted) :] if m.rank == rank and not isinstance(m, Hello)]
        if refused := len(messages) - len(accepted):
            self._refuse(f"rank {rank} sent messages of another rank, or a second Hello", refused)
        return accepted

    def _refuse_undecodable(self, identity: bytes, frames: list[bytes]) -> list[RankMessage]:
        """Refuses a peer's first message. The peer is stopped if it was a Hello of another protocol version."""
        try:
            [frame] = frames
            first = msgspec.msgpack.decode(frame, type=list[msgspec.Raw])[0]
            hello = msgspec.msgpack.decode(first, type=HelloOfAnyVersion)
        except (ValueError, RecursionError, IndexError):
            return self._refuse(UNDECODABLE)
        if not self._has_token(hello):
            return self._refuse(NO_TOKEN)
        if hello.version == VERSION:
            return self._refuse(UNDECODABLE)
        self._turn_away(identity, self._say_versions(hello))
        return []

    def _refuse(self, why: str, count: int = 1) -> list[RankMessage]:
        self.refused += count
        self.first_refusal = self.first_refusal or why
        return []

    def _welcome(self, identity: bytes, messages: list[RankMessage]) -> bool:
        """Accepts a new peer if its first message is a Hello that fits."""
        hello = messages[0] if messages else None
        if not isinstance(hello, Hello) or not self._has_token(hello):
            self._refuse(NO_TOKEN)
            return False
        if why := self._misfit(hello):
            self._turn_away(identity, why)
            return False
        self._rank_of[identity] = hello.rank
        self.hellos[hello.rank] = hello
        return True

    def _has_token(self, hello: Hello | HelloOfAnyVersion) -> bool:
        return hmac.compare_digest(hello.token.encode(), self.token.encode())

    def _turn_away(self, identity: bytes, why: str) -> None:
        self._refuse(why)
        self._send(identity, Stop(why=why))

    def _say_versions(self, hello: Hello | HelloOfAnyVersion) -> str:
        self.other_version = (
            f"rank {hello.rank} speaks version {hello.version} of ddptui's protocol, this console version {VERSION}: "
            f"install ddptui {__version__} where the ranks run, too"
        )
        return self.other_version

    def _misfit(self, hello: Hello) -> str:
        if hello.version != VERSION:
            return self._say_versions(hello)
        if hello.world_size != self.world_size or not 0 <= hello.rank < self.world_size:
            return f"rank {hello.rank} of {hello.world_size} connected to a launch of {self.world_size} ranks"
        return f"a second process connected as rank {hello.rank}" if hello.rank in self.hellos else ""


def _new_folder() -> Path:
    """A folder of mode 0700 with a path short enough for a socket. Deletes those that killed consoles have left."""
    parent = Path(tempfile.gettempdir())
    if len(os.fsencode(parent)) > LONGEST_FOLDER_PATH:
        parent = Path("/tmp")
    return folders.temporary("ddptui-hub", parent)
