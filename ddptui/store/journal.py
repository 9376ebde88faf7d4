"""The contents of environment.json, and which entries affect measurements."""

import errno
import fcntl
import itertools
import os
import shlex
import struct
import time
from codecs import getincrementaldecoder
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Annotated, Any, BinaryIO

import msgspec

from ddptui.host.folders import open_plain
from ddptui.text.sanitize import shell_line
from ddptui.text.words import count, printable
from ddptui.wire.connection import flight_record
from ddptui.wire.limits import MOST_BYTES_A_FRAME
from ddptui.wire.records import Ended, Message

# Keys whose change may change measurements. So may the versions of packages.
MATTERS_TO_FIGURES = (
    "ddptui", "python", "host", "cpu", "cores", "gpus", "gpu_driver", "gpus_visible", "gpu_power_limit_w", "gpu_links",
    "openmp", "malloc", "watched",
)  # fmt: skip
DEEPEST = 16  # allowed nesting of tables and lists in environment.json; a console writes at most 4 levels
TOO_DEEP = "its tables and lists are nested too deeply"


class Environment(msgspec.Struct):
    """The keys of environment.json that the program relies on, with their types. Other keys are allowed."""

    preset: Annotated[str, msgspec.Meta(max_length=255)] = ""
    packages: dict[str, Any] = {}
    resumed: list[dict[str, Any]] = []
    cores: int | None = None


def problem_of(environment: dict[str, Any]) -> str:
    """Why the program cannot use this environment; empty if it can."""
    try:
        msgspec.convert(environment, Environment)
    except msgspec.ValidationError as error:
        return str(error)
    return "" if _nests_at_most(environment, DEEPEST) else TOO_DEEP


def what_matters(environment: dict[str, Any]) -> dict[str, Any]:
    """The entries that may change measurements, including the versions of packages."""
    packages: dict[str, Any] = environment.get("packages", {})
    return {key: environment.get(key) for key in MATTERS_TO_FIGURES} | packages


def _nests_at_most(value: Any, levels: int) -> bool:
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels >= 0 and all(_nests_at_most(child, levels - 1) for child in children)


LOCK = "lock"  # a file of its own: an editor may replace another file of the run, and so drop its lock
ASKS = hasattr(fcntl, "F_OFD_GETLK")  # whether the system can tell if a file is locked, as Linux can
FLOCK = "hhqqi4x"  # 64-bit struct flock: type, whence, start, length, process id
WHOLE_FILE = struct.pack(FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)


def opened(path: Path, flags: int) -> IO[bytes]:
    """Open a lock's file, without following a link or waiting for the other end of a pipe. Raises OSError."""
    return open(os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o644), "rb", buffering=0)


def lock(file: IO[bytes]) -> bool:
    """Try to acquire the lock; returns whether this console may write. The kernel releases the lock when the file is
    closed or the console dies. True also if files cannot be locked here."""
    try:
        if ASKS:
            fcntl.fcntl(file, fcntl.F_OFD_SETLK, WHOLE_FILE)
        else:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:  # other errors: files cannot be locked here, as on some network file systems
        return not isinstance(error, BlockingIOError | PermissionError)  # POSIX allows either for a locked file
    return True


def is_locked(file: IO[bytes]) -> bool:
    """Whether a console holds the lock. That may be this console, through another descriptor. Raises OSError."""
    if ASKS:
        kind: int = struct.unpack(FLOCK, fcntl.fcntl(file, fcntl.F_OFD_GETLK, WHOLE_FILE))[0]
        return kind != fcntl.F_UNLCK
    return not lock(file)  # other systems: try to lock it; closing the file releases the lock


FLUSH_EVERY_S = 0.5  # ranks send heartbeats every second, so no message waits longer than 1.5 s
BYTES_AT_ONCE = 2**20  # bytes read at a time to count the lines after a damaged one
MOST_JOURNAL = 16 * 2**30  # bytes; a larger journal is rejected, because reading it would take minutes
LONGEST_MESSAGE = 8 * MOST_BYTES_A_FRAME  # bytes of a line: JSON takes up to 7 times as many as the wire format
MOST_BYTES = 64 * 1024  # bytes of a log read at a time; of a longer piece only the end is shown
MOST_LOG = 2**62  # bytes of a log: no limit
LONGEST_LINE = 2000  # characters shown of a log's line
LOG_TAIL = 16_384  # bytes at the end of a log that may explain a failure

DECODER = msgspec.json.Decoder(Message)


class RunLost(Exception):
    """A run's folder can no longer be written: the disk is full, or the folder has been moved or deleted."""

    def __init__(self, folder: Path, error: OSError) -> None:
        super().__init__(f"the run can no longer be saved in {folder}: {error.strerror or error}")


@contextmanager
def raising_run_lost(folder: Path) -> Iterator[None]:
    """Turns an OSError within the context into RunLost."""
    try:
        yield
    except OSError as error:
        raise RunLost(folder, error) from error


class RepeatJournal:
    """One repeat's folder while it is being written: its journal, command and logs."""

    def __init__(self, folder: Path, number: int, journal: IO[bytes]) -> None:  # the caller closes the journal
        self.folder = folder
        self.number = number
        self._journal = journal
        self._flushed = time.monotonic()
        self._over = False

    def write(self, message: Message) -> None:
        """Append a message to the journal; the last message also syncs it to disk. Raises RunLost."""
        self._over = self._over or isinstance(message, Ended)
        with raising_run_lost(self.folder):
            self._journal.write(msgspec.json.encode(message) + b"\n")
        if self._over or time.monotonic() - self._flushed > FLUSH_EVERY_S:
            self._flush()

    def _flush(self) -> None:
        with raising_run_lost(self.folder):
            self._journal.flush()
            self._flushed = time.monotonic()
            self._check_in_place()
            if self._over:
                os.fsync(self._journal.fileno())

    def _check_in_place(self) -> None:
        """Raises FileNotFoundError if the journal was moved or deleted, which writing to it would not notice."""
        written = os.fstat(self._journal.fileno())
        with suppress(FileNotFoundError):
            if os.path.samestat(written, os.stat(self._journal.name)):
                return
        raise FileNotFoundError(errno.ENOENT, f"it has been {'moved' if written.st_nlink else 'deleted'}")

    def write_command(self, command: list[str], environment: dict[str, str]) -> None:
        """Write the shell command that repeats the launch without a console. Raises RunLost."""
        variables = [f"{name}={shlex.quote(value)}" for name, value in environment.items()]
        line = " ".join([*variables, shell_line(command)]) + "\n"
        with raising_run_lost(self.folder):
            (self.folder / "command.txt").write_text(line, encoding="utf-8")

    def log(self, name: str) -> str:
        """The end of the repeat's log with this file name; empty if there is none."""
        return tail(self.folder / name)

    def flight_records(self, ranks: Iterable[int]) -> list[int]:
        """Those of the ranks that have left a record of torch's flight recorder."""
        return [rank for rank in ranks if (self.folder / flight_record(rank)).is_file()]

    def close(self) -> None:
        """Record that the repeat was interrupted, unless its end is recorded already. Raises RunLost."""
        if not self._over:
            self.write(Ended(at_ns=time.monotonic_ns(), status="interrupted"))


def read_messages(path: Path, unread: list[str] | None = None) -> Iterator[Message]:
    """Yields the messages of a journal up to the first damaged line. If lines are lost that way, a note that names the
    file and the line is added to `unread`. Raises OSError if the journal cannot be opened or read."""
    with open_plain(path, MOST_JOURNAL) as journal:
        for number in itertools.count(1):
            if not (line := journal.readline(LONGEST_MESSAGE)):
                return
            message = _message(line)
            if message is None:
                is_whole = line.endswith(b"\n") or len(line) == LONGEST_MESSAGE
                after = _lines_after(journal, line)
                # An incomplete last line is no damage: the console was killed while writing it.
                if unread is not None and (is_whole or after):
                    what = count(1 + after, "line is", "lines are") + " missing from these figures"
                    place = Path(*path.parts[-3:])
                    unread.append(f"{place}: line {number} cannot be read; {what}: restore the file from a copy")
                return
            yield message


def _message(line: bytes) -> Message | None:
    """The message in a line; None if the line is damaged."""
    try:
        message: Message = DECODER.decode(line)
        return message
    except (ValueError, RecursionError):  # RecursionError: too deeply nested
        return None


def _lines_after(journal: BinaryIO, line: bytes) -> int:
    """How many lines follow this one, even if only its beginning has been read so far."""
    ends, last = 0 if line.endswith(b"\n") else -1, line[-1:]
    while piece := journal.read(BYTES_AT_ONCE):
        ends, last = ends + piece.count(b"\n"), piece[-1:]
    return ends + (last != b"\n")


class LogTail:
    """Follows a log while it is written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._at: int | None = None
        self._decoder = getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    def new_lines(self) -> list[str]:
        """The lines added since the last call; none while there is no log."""
        try:
            with open_plain(self.path, MOST_LOG) as log:
                size = os.fstat(log.fileno()).st_size
                if self._at is None or size - self._at > MOST_BYTES:
                    self._at = max(0, size - MOST_BYTES)
                    self._decoder.reset()
                    self._rest = ""
                log.seek(self._at)
                new = log.read(MOST_BYTES)
        except OSError:
            return []
        self._at += len(new)
        # The last line may be incomplete, and so may its last character: the decoder keeps the bytes of the latter.
        *lines, rest = (self._rest + self._decoder.decode(new)).split("\n")
        self._rest = rest[:LONGEST_LINE]
        return [printable(line[:LONGEST_LINE].rstrip("\r").expandtabs(4)) for line in lines]


def tail(path: Path) -> str:
    """The end of a log; empty if there is none."""
    with suppress(OSError), open_plain(path, MOST_LOG) as log:
        log.seek(max(0, os.fstat(log.fileno()).st_size - LOG_TAIL))
        return log.read(LOG_TAIL).decode("utf-8", "replace")
    return ""
