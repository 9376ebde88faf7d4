"""Prints results on stdout, laid out for the terminal."""

import os
import re
import shutil
import sys
from collections.abc import Sequence

from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.host.machine import is_dumb
from ddptui.host.source import source_line
from ddptui.report import table
from ddptui.text.drawing import cell_len, paragraph
from ddptui.text.sanitize import FIRST_STYLE, LAST_STYLE

PIPED_WIDTH = 80  # columns if stdout is not a terminal
STYLE = re.compile(f"[{chr(FIRST_STYLE)}-{chr(LAST_STYLE)}]")  # marks of styles, which take no column


def show(text: str) -> None:
    """Print results on stdout. Does nothing if the reader of a pipe has exited (`| head`)."""
    try:
        print(text, end="", flush=True)
    except OSError:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  (otherwise Python reports the error again at exit)


def as_table(results: Results, preset: Preset, usual: Sequence[str], answers: Sequence[str] = ()) -> str:
    """The results as a table for stdout, as wide as the terminal, in color if it shows color. usual, answers: see
    table.text."""
    color = _is_terminal() and not os.environ.get("NO_COLOR") and not is_dumb()  # no-color.org
    shown = table.text(results, preset, width(), color=color, usual=usual, source=source_line, answers=answers)
    return wrapped(shown)


def wrapped(text: str) -> str:
    """The text, wrapped between words to the width of the terminal. In a pipe, lines are not wrapped."""
    return "".join(f"{line}\n" for long in text.splitlines() for line in _wrapped(long)) if _is_terminal() else text


def _wrapped(line: str) -> list[str]:
    if cell_len(STYLE.sub("", line)) <= width():
        return [line]
    # do not break commands and paths, so that they can be copied
    return paragraph(line, width(), subsequent_indent="  ", break_long_words=False)


def _is_terminal() -> bool:
    return bool(sys.stdout) and sys.stdout.isatty()


def width() -> int:
    """The columns of the terminal; PIPED_WIDTH if stdout is not a terminal."""
    return shutil.get_terminal_size((PIPED_WIDTH, 24)).columns
