"""A rank's connections to its relay: frames through a Unix socket, none of which blocks, and a shared page of
memory.

No call blocks. If the training has closed our file descriptor, we do not touch it: its number may belong to another
file now.

The page says which collective the rank has called last, even if the rank was killed before it could send its last
notes.
"""

import ctypes
import json
import mmap
import os
import socket
import struct
import time
from types import CodeType, FrameType
from typing import Any, NamedTuple

from ..instruments.shield import identity, no_standard_stream, pass_on, suppressed
from .ending import Place, is_ours, place_of

HEAD_BYTES = 5  # a frame's kind, then its length as 4 bytes, big-endian
JSON, NOTES = b"J", b"N"  # kinds of frames
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


# Optimizer steps and marked step ends; collectives since the last of these; collectives since the observer began; kind
# (an index into notes.KINDS, or -1); bytes; 2 in backward, 1 after it in the same step, else 0.
PAGE_NUMBERS = struct.Struct("<6q")
# Then, on the CPU: the line of the user's code that has called that collective, 0 if it is not known (in backward torch
# calls it); and as JSON the file and the function. Only there may a collective abort the process at once (gloo).
LINE, LINE_AT = struct.Struct("<q"), PAGE_NUMBERS.size
CODE_AT, MOST_CODE = LINE_AT + LINE.size, 440
SIZE = CODE_AT + MOST_CODE
MOST_CALLERS = 12  # frames between the hook and the user's code
FAILED = ctypes.c_void_p(-1).value  # what mmap returns if it fails


class Page:
    """The rank's end of the page."""

    def __init__(self, socket: str) -> None:
        """socket: the path of the relay's socket, beside which the file is made."""
        self.path: str | None = None  # of the file; None if it could not be made
        self.numbers: Any = ctypes.create_string_buffer(SIZE)  # for NUMBERS.pack_into
        self._codes: dict[CodeType, tuple[Place, bytes] | None] = {}  # met so far; None: not the user's own
        self._code: CodeType | None = None  # whose text stands in the page
        with suppressed(OSError):
            self._share(os.path.join(os.path.dirname(socket), f"page-{os.getpid()}-{time.monotonic_ns()}"))

    def _share(self, path: str) -> None:
        # Python's mmap would keep a file descriptor. The training may close that, and open a file of its own under its
        # number, which Python would then close.
        descriptor = no_standard_stream(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        try:
            os.write(descriptor, bytes(SIZE))  # takes space on the disk: a full one must not end the training
            system = ctypes.CDLL(None)
            system.mmap.restype = ctypes.c_void_p
            system.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
            access = mmap.PROT_READ | mmap.PROT_WRITE
            address = system.mmap(None, SIZE, access, mmap.MAP_SHARED, descriptor, 0)
        finally:
            os.close(descriptor)
        if address == FAILED:
            os.unlink(path)
            return
        # Never unmapped: a thread of the training may just write to it.
        self.numbers = (ctypes.c_char * SIZE).from_address(address)
        self.path = path

    def line(self, frame: FrameType | None, *, write: bool) -> tuple[tuple[Any, ...], ...]:
        """Which line of the user's code calls a collective, as a stack; empty if it is not known. frame: the hook's.
        write: whether to write it to the page."""
        for _ in range(MOST_CALLERS):
            if frame is None:
                break
            code = frame.f_code
            if code not in self._codes:
                file, _, function, is_own = place = place_of(code, 0)
                text = json.dumps([file, function]).encode()
                is_known = is_own and not is_ours(code) and len(text) < MOST_CODE
                self._codes[code] = (place, text) if is_known else None
            if (known := self._codes[code]) is not None:
                (file, _, function, is_own), text = known
                line = frame.f_lineno or 0
                if write:
                    LINE.pack_into(self.numbers, LINE_AT, line)
                    if code is not self._code:
                        self._code = code
                        self.numbers[CODE_AT:SIZE] = text.ljust(MOST_CODE, b"\0")
                return ((file, line, function, is_own),)
            frame = frame.f_back
        self.forget_line()
        return ()

    def forget_line(self) -> None:
        """Write that the line is not known."""
        LINE.pack_into(self.numbers, LINE_AT, 0)


class LastCall(NamedTuple):
    """What a rank has written to its page."""

    numbers: tuple[int, ...]  # NUMBERS
    stack: list[Place]  # the line of the user's code, if it is known


def taken(path: str | None) -> LastCall | None:
    """Read what a rank has written to its page, and remove the file. None if there is none."""
    if path is None:
        return None
    try:
        with open(path, "rb") as file:
            page = file.read(SIZE)
        os.unlink(path)
        numbers, (line,) = PAGE_NUMBERS.unpack_from(page), LINE.unpack_from(page, LINE_AT)
        file_and_function = json.loads(page[CODE_AT:].rstrip(b"\0")) if line else []
    except (OSError, ValueError, struct.error):
        return None
    stack = [[file_and_function[0], line, file_and_function[1], True]] if line else []
    return LastCall(numbers, stack)
