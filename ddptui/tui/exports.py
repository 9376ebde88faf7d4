"""A run written to a file, to be read elsewhere."""

import os
from collections.abc import Iterable
from pathlib import Path

from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.report import table
from ddptui.report.trace import trace
from ddptui.store.runs import Run

FORMATS = {"markdown": ".md", "csv": ".csv", "json": ".json", "trace": ".trace.json"}  # and how a file of each ends


def offered(run: Run, form: str) -> Path:
    """Where it would be written, if nobody says otherwise."""
    return Path.cwd() / (run.name + FORMATS[form])


def meant(typed: str) -> Path:
    """The path that somebody typed, from the root."""
    return Path(os.path.abspath(os.path.expanduser(typed)))


def write(run: Run, preset: Preset, results: Results, form: str, path: Path, *, replace: bool = False) -> None:
    """Write the run in one of the FORMATS. Raises FileExistsError where a file is that shall not be replaced, and
    OSError or ValueError for what else the path cannot be."""
    with path.open("w" if replace else "x", encoding="utf-8") as file:
        file.writelines(_pieces(run, preset, results, form))


def why(error: Exception) -> str:
    """What went wrong, in one line."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _pieces(run: Run, preset: Preset, results: Results, form: str) -> Iterable[str]:
    if form == "trace":
        return trace(run.repeats(preset))
    return [table.FORMATS[form](results, preset)]
