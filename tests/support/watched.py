"""A real console on pipes or on a terminal: its time and its memory are limited, and all that it writes is read as a
terminal would read it."""

import fcntl
import os
import pty
import re
import resource
import select
import struct
import subprocess
import termios
import time
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import psutil

from tests.support.runner import ENOUGH_S, arguments, family

SIZE = struct.pack("HHHH", 40, 120, 0, 0)
LIMITS = f"ulimit -c 0; ulimit -v {psutil.virtual_memory().total // 1024}; "  # else one could take the machine's
LONGEST_LINE = 1000  # characters of an error; a name in it is cut at 200
MOST_LINES = 5  # click puts three of its own before a word that it does not know, and such a word may have two
CODES = {0, 1, 2, 130}

# CSI, by its mark and its last characters; OSC, by its number; other escapes, by their first character; or a character.
SEQUENCE = re.compile(
    r"\x1b(?:\[([<-?]?)[\d;:]*([ -/]*[@-~])|\](\d*)[^\x07\x1b]*(?:\x07|\x1b\\)?|([^\[\]]?))|[^\x1b]", re.DOTALL
)
STEERS = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # classes of characters: control, format (text runs backwards), lines' ends
ON_A_PIPE = frozenset("\n")
ON_A_TERMINAL = frozenset({"\n", "\r", "ESC [m", "ESC [K"})  # colors, and a progress line that is written anew
# What Textual sends: places and colors, modes, questions after modes, the keyboard, the pointer's shape.
ON_SCREEN = frozenset(
    {"\n", "\r", "ESC [H", "ESC [m", "ESC [K", "ESC [?h", "ESC [?l", "ESC [?$p", "ESC [>u", "ESC [<u", "ESC ]22"}
)


class Over(NamedTuple):
    """How a command ended. out: on a terminal, all that was painted; peak_bytes: of memory, the most of one process."""

    code: int
    out: str
    error: str
    peak_bytes: int


class Watched:
    """A command under way."""

    def __init__(
        self,
        words: Sequence[str | bytes],
        folder: Path,
        environment: Mapping[str, str | bytes],
        *,
        on_a_terminal: bool = False,
        within: str = "",
    ) -> None:
        ends = [pty.openpty()] * 2 if on_a_terminal else [os.pipe(), os.pipe()]
        opened = ""
        if on_a_terminal:
            fcntl.ioctl(ends[0][1], termios.TIOCSWINSZ, SIZE)
            opened = " <{0} >{0} 2>{0}".format(os.ttyname(ends[0][1]))  # the process that opens it receives its Ctrl-C
        self.process = subprocess.Popen(
            ["sh", "-c", f'{LIMITS}exec {within} "$@"{opened}', "sh", *arguments(), *words],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=ends[0][1],
            stderr=ends[1][1],
            start_new_session=True,
        )
        for _, written in set(ends):
            os.close(written)
        self._out, self._error = (read for read, _ in ends)
        self._open = {self._out, self._error}
        self._read = dict.fromkeys(self._open, b"")
        self._pressed_at = 0
        self._deadline = time.monotonic() + ENOUGH_S

    @property
    def painted(self) -> bytes:
        """What has come from stdout so far; from a terminal, all."""
        return self._read[self._out]

    def until(self, pattern: bytes) -> bool:
        """Read until this has come, since the last keys; False if the command ends without it."""
        while not re.search(pattern, self.painted[self._pressed_at :]):
            if not self._read_some():
                return False
        return True

    def press(self, keys: bytes) -> None:
        """Type, on its terminal."""
        self._pressed_at = len(self.painted)
        os.write(self._out, keys)

    def over(self) -> Over:
        """Read to the end. Fails if it hangs."""
        while self._read_some():
            pass
        _, status, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        out, error = (self._read.pop(end, b"").decode("utf-8", "replace") for end in (self._out, self._error))
        # Until it had its own program, the process was a copy of this one, whose peak counts as its own.
        mine = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return Over(self.process.returncode, out, error, usage.ru_maxrss * 1024 if usage.ru_maxrss > mine else 0)

    def _read_some(self) -> bool:
        """Read what has come; False once all ends are closed."""
        assert time.monotonic() < self._deadline, f"it hangs, after {self.painted[-500:]!r}"
        for end in select.select(self._open, [], [], 1)[0]:
            try:
                new = os.read(end, 2**16)
            except OSError:  # nobody is at the other end of a terminal any more
                new = b""
            self._read[end] += new
            self._open -= set() if new else {end}
        return bool(self._open)

    def close(self) -> None:
        """Kill what is left."""
        if self.process.returncode is None:
            for process in family(self.process.pid):
                process.kill()
            self.process.kill()
            self.process.wait()
        for end in {self._out, self._error}:
            os.close(end)


@contextmanager
def watched(
    words: Sequence[str | bytes],
    folder: Path,
    environment: Mapping[str, str | bytes],
    *,
    on_a_terminal: bool = False,
    within: str = "",
) -> Iterator[Watched]:
    """Start a command, as a word of another one (`within`) if that is given; none is left behind."""
    command = Watched(words, folder, environment, on_a_terminal=on_a_terminal, within=within)
    try:
        yield command
    finally:
        command.close()


def steering(text: str) -> set[str]:
    """The kinds of sequences and control characters in a text: `ESC [m`, `ESC ]52`, `'\\x07'`."""
    return {kind for match in SEQUENCE.finditer(text) if (kind := _kind(match))}


def _kind(match: re.Match[str]) -> str:
    private, final, command, other = match.groups()
    if final:
        return f"ESC [{private}{final}"
    if command is not None:
        return f"ESC ]{command}"
    if other is not None:
        return f"ESC {other}"
    return match[0] if unicodedata.category(match[0]) in STEERS else ""


def assert_harmless(over: Over, may: Collection[str], most_bytes: float) -> None:
    """One line or a run: no traceback, no text without end, no more memory than `most_bytes`; and no sequence or
    control character but those of `may`."""
    assert over.code in CODES, over.error[-2000:] or over.out[-2000:]
    assert "Traceback" not in over.out + over.error, over.error[-2000:] or over.out[-2000:]
    lines = over.error.splitlines()
    assert max(map(len, lines), default=0) <= LONGEST_LINE, over.error[:LONGEST_LINE]
    assert over.code != 2 or len(lines) <= MOST_LINES, over.error[:LONGEST_LINE]
    assert steering(over.out + over.error) <= set(may), steering(over.out + over.error) - set(may)
    assert over.peak_bytes < most_bytes
