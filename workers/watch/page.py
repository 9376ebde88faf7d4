"""A page of memory that a rank shares with its relay through a small file. It says which collective the rank has called
last, even if the rank was killed before it could send its last notes."""

import ctypes
import json
import mmap
import os
import struct
import time
from types import CodeType, FrameType
from typing import Any, NamedTuple

from ..instruments.descriptors import no_standard_stream
from ..instruments.shield import suppressed
from .ending import Place, is_ours, place_of

# Optimizer steps and marked step ends; collectives since the last of these; collectives since the observer began; kind
# (an index into notes.KINDS, or -1); bytes; 2 in backward, 1 after it in the same step, else 0.
NUMBERS = struct.Struct("<6q")
# Then, on the CPU: the line of the user's code that has called that collective, 0 if it is not known (in backward torch
# calls it); and as JSON the file and the function. Only there may a collective abort the process at once (gloo).
LINE, LINE_AT = struct.Struct("<q"), NUMBERS.size
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
        numbers, (line,) = NUMBERS.unpack_from(page), LINE.unpack_from(page, LINE_AT)
        file_and_function = json.loads(page[CODE_AT:].rstrip(b"\0")) if line else []
    except (OSError, ValueError, struct.error):
        return None
    stack = [[file_and_function[0], line, file_and_function[1], True]] if line else []
    return LastCall(numbers, stack)
