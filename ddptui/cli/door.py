"""The door: stdout and stderr of the command line, through which all text leaves."""

import codecs
import io
import sys
from typing import TextIO

from ddptui.host.terminal import is_dumb
from ddptui.text.door import at_the_door, brief

ERROR = "Error: "  # how click begins its line


class Door(io.TextIOWrapper):
    """A stream that spells out what could steer a terminal, replaces what its encoding cannot show, and cuts errors."""

    def __init__(self, stream: TextIO) -> None:
        self._behind = stream  # kept, for it closes the buffer when it is collected
        self._shows = codecs.lookup(stream.encoding).name
        # click writes UTF-8 past a stream that says it is ASCII; text in ASCII is the same in both
        encoding = "utf-8" if self._shows == "ascii" else self._shows
        super().__init__(stream.buffer, encoding, "replace", line_buffering=stream.isatty() or stream is sys.stderr)

    def write(self, text: str) -> int:
        """Write the text as it may leave."""
        is_error = text.startswith(ERROR)
        # click indents the choices that it lists with tabs
        shown = at_the_door(text.expandtabs(4) if is_error else text, is_terminal=self.isatty() and not is_dumb())
        shown = brief(shown) if is_error else shown
        super().write(shown.encode(self._shows, "replace").decode(self._shows))
        return len(text)


def install() -> None:
    """Put a door before stdout and stderr."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # Textual draws past the door: a cell for each character, at least
    sys.stdout, sys.stderr = Door(sys.stdout), Door(sys.stderr)
