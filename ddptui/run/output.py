"""Results on stdout: a run's table as the terminal takes it, and the printing itself."""

import os
import shutil
import sys
from typing import TextIO

from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.report import table

PIPED_WIDTH = 80  # columns where stdout is no terminal


def show(text: str) -> None:
    """Print results on stdout. If the reader has gone (`| head`), they are still in the run's folder."""
    try:
        print(text, end="", flush=True)
    except OSError:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  (else Python reports the same error again at exit)


def as_table(results: Results, preset: Preset) -> str:
    """The table for stdout: as wide as the terminal, and in color if that shows it."""
    return table.text(results, preset, width(), color=_takes_color(sys.stdout))


def width() -> int:
    """The columns of the terminal that stdout is, if it is one."""
    return shutil.get_terminal_size((PIPED_WIDTH, 24)).columns


def _takes_color(output: TextIO) -> bool:
    """Whether the output is a terminal that shows color, unless NO_COLOR forbids it (no-color.org)."""
    return bool(output) and output.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
