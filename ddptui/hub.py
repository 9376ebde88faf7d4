"""The console's end of the wire: one socket a launch, in a folder that only this user can enter.

Nothing that comes in is trusted. A frame counts only if it decodes strictly and comes from a peer that has said Hello
with this launch's token; the rest is counted in `refused`, answered with Stop where there is somebody to answer.
"""

import hmac
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Self

import msgspec
import psutil
import zmq

from ddptui.wire import MOST_BYTES_A_FRAME, VERSION, ConsoleMessage, Hello, RankMessage, Stop

LONGEST_FOLDER_PATH = 45  # bytes; sockets below it, a forkserver's too, may have 107 in all
MOST_FRAMES_AT_ONCE = 256  # so that a flood cannot keep the caller from its other work


class Hub:
    """Receives what the ranks of one launch say, and sends them what the console wants.

    `folder` is the launch's own: whatever is put there goes when the hub is closed.
    """

    def __init__(self, world_size: int) -> None:
        self.world_size = world_size
        self.token = secrets.token_hex(16)
        self.hellos: dict[int, Hello] = {}
        self.refused = 0
        self.folder = _new_folder()
        self.endpoint = f"ipc://{self.folder}/hub"
        self._rank_of: dict[bytes, int] = {}
        self._decoder = msgspec.msgpack.Decoder(list[RankMessage])
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.setsockopt(zmq.MAXMSGSIZE, MOST_BYTES_A_FRAME)
        self._socket.setsockopt(zmq.LINGER, 200)
        self._socket.bind(self.endpoint)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()
        self._context.term()
        shutil.rmtree(self.folder, ignore_errors=True)

    def receive(self, timeout_ms: int) -> list[RankMessage]:
        """What has come in, waiting at most `timeout_ms` for the first of it."""
        messages: list[RankMessage] = []
        if not self._socket.poll(timeout_ms):
            return messages
        for _ in range(MOST_FRAMES_AT_ONCE):
            try:
                identity, *frames = self._socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                break
            messages += self._accept(identity, frames)
        return messages

    def send(self, message: ConsoleMessage, ranks: Iterable[int] | None = None) -> None:
        """Send to these ranks (none: to all that are here)."""
        wanted = self.hellos if ranks is None else set(ranks)
        for identity, rank in self._rank_of.items():
            if rank in wanted:
                self._send(identity, message)

    def _send(self, identity: bytes, message: ConsoleMessage) -> None:
        self._socket.send_multipart([identity, msgspec.msgpack.encode(message)])

    def _accept(self, identity: bytes, frames: list[bytes]) -> list[RankMessage]:
        try:
            [frame] = frames
            messages = self._decoder.decode(frame)
        except (ValueError, RecursionError):  # msgspec.DecodeError is a ValueError
            self.refused += 1
            return []
        newcomer = identity not in self._rank_of
        if newcomer and not self._welcome(identity, messages):
            return []
        rank = self._rank_of[identity]
        own: list[RankMessage] = messages[:1] if newcomer else []
        own += [m for m in messages[len(own) :] if m.rank == rank and not isinstance(m, Hello)]  # Hello is said once
        self.refused += len(messages) - len(own)
        return own

    def _welcome(self, identity: bytes, messages: list[RankMessage]) -> bool:
        """Let a new peer in if its first message is a Hello that fits."""
        hello = messages[0] if messages else None
        if not isinstance(hello, Hello) or not hmac.compare_digest(hello.token.encode(), self.token.encode()):
            self.refused += 1
            return False
        if why := self._misfit(hello):
            self.refused += 1
            self._send(identity, Stop(why=why))
            return False
        self._rank_of[identity] = hello.rank
        self.hellos[hello.rank] = hello
        return True

    def _misfit(self, hello: Hello) -> str:
        if hello.version != VERSION:
            return f"the console speaks version {VERSION} of the wire, this rank {hello.version}"
        if hello.world_size != self.world_size or not 0 <= hello.rank < self.world_size:
            return f"rank {hello.rank} of {hello.world_size} in a world of {self.world_size}"
        return f"rank {hello.rank} is here already" if hello.rank in self.hellos else ""


def _new_folder() -> Path:
    """A folder of mode 0700, its path short enough for a socket. Takes away those that a killed console has left."""
    where = Path(tempfile.gettempdir())
    if len(os.fsencode(where)) > LONGEST_FOLDER_PATH:
        where = Path("/tmp")
    for left in where.glob("ddptui-hub-*-*"):
        pid = left.name.split("-")[2]
        if pid.isdecimal() and not psutil.pid_exists(int(pid)) and left.stat().st_uid == os.getuid():
            shutil.rmtree(left, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"ddptui-hub-{os.getpid()}-", dir=where))
