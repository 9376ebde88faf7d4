"""Sanitizes everything that the command line writes to stdout and stderr."""

import codecs
import io
import sys
from typing import TextIO

from ddptui.host.machine import is_dumb
from ddptui.text.sanitize import at_the_door, brief

ERROR = "Error: "  # click's prefix of an error line


class Door(io.TextIOWrapper):
    """A text stream that makes terminal control characters visible, replaces characters that its encoding lacks, and
    shortens long errors."""

    def __init__(self, stream: TextIO) -> None:
        self._behind = stream  # keep a reference: the stream closes the shared buffer when it is garbage-collected
        self._shows = codecs.lookup(stream.encoding).name
        # click bypasses a stream that claims to be ASCII and writes UTF-8; ASCII text is the same in both encodings
        encoding = "utf-8" if self._shows == "ascii" else self._shows
        super().__init__(stream.buffer, encoding, "replace", line_buffering=stream.isatty() or stream is sys.stderr)

    def write(self, text: str) -> int:
        """Write the sanitized text. Returns the number of characters given."""
        is_error = text.startswith(ERROR)
        # click indents its lists of choices with tabs
        shown = at_the_door(text.expandtabs(4) if is_error else text, is_terminal=self.isatty() and not is_dumb())
        shown = brief(shown) if is_error else shown
        super().write(shown.encode(self._shows, "replace").decode(self._shows))
        return len(text)


def install() -> None:
    """Wrap stdout and stderr in sanitizing streams."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # Textual writes to the original stream: it must not fail there
    sys.stdout, sys.stderr = Door(sys.stdout), Door(sys.stderr)
