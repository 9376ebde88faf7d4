"""Results on stdout: a run's table as the terminal takes it, and the printing itself."""

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Sequence

from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.host.terminal import is_dumb
from ddptui.report import table
from ddptui.text.door import FIRST_STYLE, LAST_STYLE

PIPED_WIDTH = 80  # columns where stdout is no terminal
STYLE = re.compile(f"[{chr(FIRST_STYLE)}-{chr(LAST_STYLE)}]")  # takes no column


def show(text: str) -> None:
    """Print results on stdout. If the reader has gone (`| head`), they are still in the run's folder."""
    try:
        print(text, end="", flush=True)
    except OSError:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  (else Python reports the same error again at exit)


def as_table(results: Results, preset: Preset, usual: Sequence[str]) -> str:
    """The table for stdout: as wide as the terminal, and in color if that shows it. usual: as table.text has them."""
    return wrapped(table.text(results, preset, width(), color=_takes_color(), usual=usual))


def wrapped(text: str) -> str:
    """The text with lines that a terminal would break in mid-word broken between words. In a pipe they stay whole."""
    return "".join(f"{line}\n" for long in text.splitlines() for line in _wrapped(long)) if _is_terminal() else text


def _wrapped(line: str) -> list[str]:
    if len(STYLE.sub("", line)) <= width():
        return [line]
    # a command or a path that is broken in two cannot be copied
    return textwrap.wrap(line, width(), subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def _is_terminal() -> bool:
    return bool(sys.stdout) and sys.stdout.isatty()


def width() -> int:
    """The columns of the terminal that stdout is, if it is one."""
    return shutil.get_terminal_size((PIPED_WIDTH, 24)).columns


def _takes_color() -> bool:
    """Whether stdout is a terminal that shows color, unless NO_COLOR forbids it (no-color.org)."""
    return _is_terminal() and not os.environ.get("NO_COLOR") and not is_dumb()
