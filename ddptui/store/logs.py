"""Logs of ranks: their new lines while they are being written, and their end. Terminals display both safely."""

from codecs import getincrementaldecoder
from pathlib import Path

from ddptui.text.words import printable

MOST_BYTES = 64 * 1024  # a look; of a longer log only the end is shown
LONGEST_LINE = 2000  # characters
LOG_TAIL = 16_384  # bytes


class LogTail:
    """Follows one log."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._at: int | None = None
        self._decoder = getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    def new_lines(self) -> list[str]:
        """The lines added since the last call; none while there is no log."""
        try:
            size = self.path.stat().st_size
            if self._at is None or size - self._at > MOST_BYTES:
                self._at = max(0, size - MOST_BYTES)
                self._decoder.reset()
                self._rest = ""
            with self.path.open("rb") as log:
                log.seek(self._at)
                new = log.read(MOST_BYTES)
        except OSError:
            return []
        self._at += len(new)
        # A line may still be in the middle, and so may a character: the decoder keeps its first bytes.
        *lines, rest = (self._rest + self._decoder.decode(new)).split("\n")
        self._rest = rest[:LONGEST_LINE]
        return [printable(line[:LONGEST_LINE].rstrip("\r").expandtabs(4)) for line in lines]


def tail(path: Path) -> str:
    """The end of a log; empty if there is none."""
    if not path.is_file():
        return ""
    with path.open("rb") as log:
        log.seek(max(0, path.stat().st_size - LOG_TAIL))
        return log.read().decode("utf-8", "replace")
