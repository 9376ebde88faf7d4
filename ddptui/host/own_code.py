"""Finds the user's own code that a trial names, and looks at it without running it."""

import ast
import os
import sys
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from importlib.machinery import PathFinder
from pathlib import Path
from warnings import catch_warnings, simplefilter

import msgspec

from ddptui.config.trial import FIELDS, SUFFIX, OwnCode, Trial, is_own, own_codes, parsed
from ddptui.host.files import read_plain
from ddptui.host.folders import module_folders
from ddptui.text.words import MB, did_you_mean, listed


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
            tree = ast.parse(read_plain(Path(own.source), MB))
    except FileNotFoundError:
        start = f"give its path, or write one: `ddptui new strategy {own.source}`"
        return f"no file {own.source} beside the preset, or in {os.getcwd()}: {start}"
    except OSError as error:
        return f"{own.source} cannot be read: {error.strerror}"
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = f":{error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        return f"{os.path.basename(own.source)}{line} is not valid Python: {getattr(error, 'msg', error)}"
    names = defined_in(tree)
    if own.name in names or "*" in names:
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


def defined_in(tree: ast.Module) -> list[str]:
    """The names that a module defines or imports anywhere outside of its functions and classes; "*" if that is not
    known."""
    names: dict[str, None] = {}
    unread = deque[ast.AST](tree.body)
    while unread:
        node = unread.popleft()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names[node.name] = None
            continue
        if isinstance(node, ast.alias):
            names[(node.asname or node.name).partition(".")[0]] = None
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names[node.id] = None
        unread.extend(ast.iter_child_nodes(node))
    return [*names]


def _can_be_imported(module: str) -> bool:
    """Whether a rank can import this module."""
    here = ("", os.getcwd())  # excluded, because a rank starts in another folder
    folders = [*module_folders(), *(folder for folder in sys.path if folder not in here)]
    if PathFinder.find_spec(module, folders) is not None:
        return True
    others = (finder for finder in sys.meta_path if finder is not PathFinder)  # built-in modules, editable installs
    return any(finder.find_spec(module, None) is not None for finder in others)
