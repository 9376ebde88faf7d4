"""A rank's connection to the relay on its host: frames through a Unix socket. No call blocks. If the training has
closed our file descriptor, we do not touch it: its number may belong to another file now."""

import json
import socket
from typing import Any

from ..instruments.descriptors import identity, no_standard_stream
from ..instruments.shield import pass_on

HEAD_BYTES = 5  # a frame's kind, then its length as 4 bytes, big-endian
JSON, NUMBERS = b"J", b"N"  # kinds of frames
MOST_RECEIVED = 1 << 16  # bytes at a time


class Gone(Exception):
    """There is no relay, or it has ended."""


def framed(kind: bytes, body: bytes) -> bytes:
    """A frame with its head, as it is sent."""
    return kind + len(body).to_bytes(HEAD_BYTES - 1, "big") + body


class Link:
    """One connection, for use by one thread at a time."""

    def __init__(self, path: str) -> None:
        """path: the relay's socket. Raises Gone, or OSError if the process has no file descriptor left."""
        new = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket = socket.socket(fileno=no_standard_stream(new.detach()))
        try:
            self._socket.setblocking(False)
            self._socket.connect(path)
        except OSError as error:
            self._socket.close()
            pass_on(error)
            raise Gone(str(error)) from None
        self._identity = identity(self._socket.fileno())
        self._unsent = b""
        self._received = b""

    @property
    def is_idle(self) -> bool:
        """Whether every frame has been sent."""
        return not self._unsent

    def put(self, kind: bytes, body: bytes) -> None:
        """Queue a frame."""
        self._unsent += framed(kind, body)

    def send(self) -> None:
        """Send as much as the socket takes without blocking. Raises Gone."""
        if not self._unsent:
            return
        self._check()
        try:  # without the flag, SIGPIPE would kill a training that has reset the signal to its default
            sent = self._socket.send(self._unsent, socket.MSG_NOSIGNAL)
        except OSError as error:
            pass_on(error)
            if isinstance(error, BlockingIOError | InterruptedError):
                return
            raise Gone(str(error)) from None
        self._unsent = self._unsent[sent:]

    def receive(self) -> list[dict[str, Any]]:
        """Return the relay's messages that have arrived since the last call. Raises Gone."""
        self._check()
        try:
            new = self._socket.recv(MOST_RECEIVED)
        except (BlockingIOError, InterruptedError):
            return []
        except OSError as error:
            raise Gone(str(error)) from None
        if not new:
            raise Gone("the relay has ended")
        self._received += new
        *lines, self._received = self._received.split(b"\n")
        return [json.loads(line) for line in lines]

    def close(self) -> None:
        """Close the connection, unless the training has already closed it."""
        if identity(self._socket.fileno()) == self._identity:
            self._socket.close()
        else:
            self._socket.detach()

    def _check(self) -> None:
        if self._identity is None or identity(self._socket.fileno()) != self._identity:
            self._socket.detach()  # else Python would close the training's own file with this object
            raise Gone("the training has closed the connection")
