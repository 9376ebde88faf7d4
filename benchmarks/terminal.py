"""A command in a terminal of its own (a pty), for benchmarks of the console: what it paints, and when."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from types import TracebackType
from typing import Self

import psutil

SIZE = (40, 120)  # lines, columns
ENOUGH_S = 120.0


class Terminal:
    """`painted`: all bytes so far."""

    def __init__(self, command: list[str], **variables: str) -> None:
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", *SIZE, 0, 0))
        self.began = time.perf_counter()
        self.process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, env={**os.environ, "TERM": "xterm-256color", **variables}
        )
        os.close(slave)
        self._master = master
        self.painted = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.process.terminate()
        while self.process.poll() is None:
            self.read(0.1)
        os.close(self._master)

    def press(self, key: str) -> float:
        """When it was pressed."""
        now = time.perf_counter()
        os.write(self._master, key.encode())
        return now

    def read(self, timeout_s: float) -> bytes:
        """What is painted within that time, as soon as there is something."""
        if not select.select([self._master], [], [], timeout_s)[0]:
            return b""
        try:
            new = os.read(self._master, 2**16)
        except OSError:  # the other end is closed
            return b""
        self.painted += new
        return new

    def wait_for(self, pattern: bytes, since: int = 0) -> float:
        """When this was painted, after so many bytes. Raises TimeoutError."""
        deadline = time.perf_counter() + ENOUGH_S
        while not re.search(pattern, self.painted[since:]):
            self.read(0.1)
            if time.perf_counter() > deadline or self.process.poll() is not None:
                raise TimeoutError(f"{pattern!r} was never painted: {self.painted[-2000:].decode(errors='replace')}")
        return time.perf_counter()

    def idle(self, seconds: float) -> None:
        """Go on reading, so that it can go on painting."""
        end = time.perf_counter() + seconds
        while (left := end - time.perf_counter()) > 0:
            self.read(left)

    def cpu_s(self) -> float:
        """Of the console itself, without the ranks."""
        times = psutil.Process(self.process.pid).cpu_times()
        return times.user + times.system
