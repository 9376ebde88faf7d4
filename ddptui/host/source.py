"""Reads single lines of source files, to show them beside figures. Only the console does this, never a rank.

The names of the files come from ranks or from a recorded run, so they are not trusted: only Python files are read.
"""

import io
import os
import socket
from datetime import datetime
from functools import lru_cache
from pathlib import Path

from ddptui.host.files import read_plain
from ddptui.host.folders import lab_root
from ddptui.text.drawing import shorten
from ddptui.text.sanitize import at_the_door
from ddptui.text.words import MB, S

SUFFIX = ".py"  # a recorded run must not show lines of other files, such as keys
LONGEST = 200  # characters


def source_line(file: str, line: int, host: str, started: str, is_lab: bool) -> str:
    """A line of a source file, stripped and printable. Empty if the file is not a plain Python file of at most 1 MB, if
    it was changed since the run, or if the rank was on another host.

    file: absolute, or relative to the current folder; in a trial of the lab, to the folder that has the package
    `workers`. host: the rank's. started: when the run was started, as in its environment.json."""
    if host != socket.gethostname() or not file.endswith(SUFFIX):
        return ""
    path = lab_root() / file if is_lab else Path(file)
    try:
        started_s = datetime.fromisoformat(started).timestamp()
        changed_ns = os.stat(path).st_mtime_ns
        lines = _lines(path.absolute(), changed_ns)
    except (OSError, ValueError):
        return ""
    if changed_ns >= (started_s + 1) * S or not 0 < line <= len(lines):  # `started` has no fractions of a second
        return ""
    return shorten(at_the_door(lines[line - 1].strip().expandtabs(), is_terminal=False), LONGEST)


@lru_cache(maxsize=32)
def _lines(path: Path, changed_ns: int) -> list[str]:
    """The lines of a file, by Python's rules. Raises OSError."""
    return io.StringIO(read_plain(path, MB).decode("utf-8", "replace"), newline=None).readlines()
