"""Reads the user's source files without running them: single lines to show beside figures, and own code that trials
name.

Only the console does this, never a rank.

The names of the files come from ranks or from a recorded run, so they are not trusted: only Python files are read.
"""

import io
import os
import re
import socket
import sys
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from importlib.machinery import PathFinder
from pathlib import Path
from symtable import symtable
from warnings import catch_warnings, simplefilter

import msgspec

from ddptui.config.trial import FIELDS, SUFFIX, OwnCode, Trial, is_own, own_codes, parsed
from ddptui.host.folders import lab_root, module_folders, read_plain
from ddptui.text.drawing import shorten
from ddptui.text.sanitize import at_the_door
from ddptui.text.words import MB, S, did_you_mean, listed

SHOWN_SUFFIX = ".py"  # a recorded run must not show lines of other files, such as keys
LONGEST = 200  # characters
IMPORTS_ALL = re.compile(rb"^[ \t]*from[ \t].*[ \t]import[ \t]*\*", re.MULTILINE)


def source_line(file: str, line: int, host: str, started: str, is_lab: bool) -> str:
    """A line of a source file, stripped and printable. Empty if the file is not a plain Python file of at most 1 MB, if
    it was changed since the run, or if the rank was on another host.

    file: absolute, or relative to the current folder; in a trial of the lab, to the folder that has the package
    `workers`. host: the rank's. started: when the run was started, as in its environment.json."""
    if host != socket.gethostname() or not file.endswith(SHOWN_SUFFIX):
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


def located(trial: Trial, beside: Path) -> Trial:
    """The trial with the absolute paths of the user's files, each found beside its preset, else in the current folder.
    A file that is in neither keeps its name. beside: the preset's folder."""
    if not own_codes(trial):
        return trial

    def place(value: str) -> str:
        if not is_own(value) or not (own := parsed(value)).is_file:
            return value
        file = os.path.expanduser(own.source)
        found = next((path for path in (beside / file, Path(file)) if os.path.isfile(path)), None)
        return f"{found.absolute()}:{own.name}" if found else value

    changed = {key: place(value) for key in FIELDS if (value := getattr(trial, key))}
    delays = tuple(msgspec.structs.replace(each, at=place(each.at)) for each in trial.bottleneck)
    return msgspec.structs.replace(trial, **changed, bottleneck=delays)


def problem_of(own: OwnCode) -> str:
    """Why a rank cannot use this code, and what to do; empty if nothing speaks against it. Raises nothing: files are
    parsed, modules located."""
    if not own.is_file:
        module, where = own.source.partition(".")[0], "put its folder on PYTHONPATH (`export PYTHONPATH=FOLDER`)"
        missing = f"no module {module!r} for '{own.source}:{own.name}'"
        return "" if _can_be_imported(module) else f"{missing}: {where}; or name its file, e.g. mine.py:{own.name}"
    try:
        with catch_warnings():
            simplefilter("ignore")  # such as one about an escape sequence: they are the rank's to print
            text = read_plain(Path(own.source), MB)
            symbols = symtable(text, own.source, "exec").get_symbols()  # type: ignore[arg-type]  # it takes bytes, too
    except FileNotFoundError:
        start = f"give its path, or write one: `ddptui new strategy {own.source}`"
        return f"no file {own.source} beside the preset, or in {os.getcwd()}: {start}"
    except OSError as error:
        return f"{own.source} cannot be read: {error.strerror}"
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = f":{error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        return f"{os.path.basename(own.source)}{line} is not valid Python: {getattr(error, 'msg', error)}"
    names = [each.get_name() for each in symbols if each.is_assigned() or each.is_imported()]
    if own.name in names or IMPORTS_ALL.search(text):
        return ""
    functions = [name for name in names if not name.startswith("_")]
    hint = did_you_mean(own.name, functions, f"it defines {listed(functions) or 'nothing'}")
    return f"{os.path.basename(own.source)} defines no {own.name!r}; {hint}"


def sources_of(trials: Iterable[Trial]) -> dict[str, bytes]:
    """The contents of the user's files that trials name, by file name; of two files with one name, the second gets
    another. A file that cannot be read is left out."""
    files = dict.fromkeys(own.source for trial in trials for own in own_codes(trial).values() if own.is_file)
    sources: dict[str, bytes] = {}
    for path in map(Path, files):
        with suppress(OSError):
            name = path.name if path.name not in sources else f"{path.stem}-{len(sources) + 1}{SUFFIX}"
            sources[name] = read_plain(path, MB)
    return sources


def _can_be_imported(module: str) -> bool:
    """Whether a rank can import this module."""
    here = ("", os.getcwd())  # excluded, because a rank starts in another folder
    folders = [*module_folders(), *(folder for folder in sys.path if folder not in here)]
    if PathFinder.find_spec(module, folders) is not None:
        return True
    others = (finder for finder in sys.meta_path if finder is not PathFinder)  # built-in modules, editable installs
    return any(finder.find_spec(module, None) is not None for finder in others)
