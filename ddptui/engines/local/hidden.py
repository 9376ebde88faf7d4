"""Why processes of a watched command that use torch are not watched: read from what the system says of them, while the
command runs. They are only looked at."""

import os
import re
import time
from contextlib import suppress
from pathlib import Path

import psutil

from ddptui.host.folders import lab_root
from ddptui.wire.connection import WATCHED

LOOK_EVERY_S = 0.3  # importing torch alone takes longer
MOST_PART = 0.1  # of this process's time, for looking
LONGEST_COMMAND = 80  # characters
IGNORES = {"I": "ignores PYTHONPATH", "E": "ignores PYTHONPATH", "S": "imports no sitecustomize"}  # options of Python
# letters without values, and one with a value, which may be the next word; after -c and -m come the program's options
OPTION = re.compile(r"-([^-cmWX]*)([cmWX]?)(.*)", re.DOTALL)
FURTHER_IN = "put `ddptui watch --` further in, directly before the command that starts the training"


def injected_folder() -> str:
    """The folder that begins a watched command's PYTHONPATH."""
    return str(lab_root() / "workers" / "watch" / "inject")


class HiddenRanks:
    """Looks for processes below a command that use torch without ddptui's instruments."""

    def __init__(self, pid: int) -> None:
        """pid: the command's."""
        self._pid = pid
        self._why: dict[psutil.Process, str] = {}  # of those that use torch
        self._look_at = 0.0  # as of time.monotonic()

    def look(self) -> None:
        """Take note of processes that have begun to use torch. Called often, it looks now and then."""
        began = time.monotonic()
        if began < self._look_at:
            return
        with suppress(psutil.Error):
            command = psutil.Process(self._pid)
            for process in {command, *command.children(recursive=True)} - self._why.keys():
                if _uses_torch(process.pid):
                    self._why[process] = _why_hidden(process)
        took = time.monotonic() - began
        self._look_at = began + max(LOOK_EVERY_S, took / MOST_PART)

    def reason(self) -> str:
        """Why the process that was found last is not watched; empty if nothing hides it, or none was found."""
        return next(reversed(self._why.values()), "")


def _uses_torch(pid: int) -> bool:
    with suppress(OSError):  # it has ended, belongs to another user, or the system has no such file
        return b"/libtorch" in Path(f"/proc/{pid}/maps").read_bytes()
    return False


def _why_hidden(process: psutil.Process) -> str:
    try:
        words, variables = process.cmdline(), process.environ()
        who = f"not watched: process {process.pid} ({' '.join(words)[:LONGEST_COMMAND]}) uses torch, but"
        why = _ignoring(words) or _lacking(variables, process) or _apart(process)
    except (psutil.Error, OSError):
        return ""
    return f"{who} {why}" if why else ""


def _ignoring(words: list[str]) -> str:
    """Which option of Python keeps the instruments out."""
    options = iter(words[1:])
    for word in options:
        parts = OPTION.match(word)
        if parts is None or word in ("-", "--"):
            break
        letters, last, value = parts.groups()
        if found := next((letter for letter in letters if letter in IGNORES), None):
            return f"was started with python -{found}, which {IGNORES[found]}, by which ddptui is loaded: leave it out"
        if last and last in "cm":
            break
        if word == "--check-hash-based-pycs" or (last and not value):
            next(options, None)
    return ""


def _lacking(variables: dict[str, str], process: psutil.Process) -> str:
    """Which variable of its environment keeps the instruments out."""
    path, ours = variables.get("PYTHONPATH"), injected_folder()
    folders = path.split(os.pathsep) if path else []
    if WATCHED not in variables:
        return f"its environment was cleared, {WATCHED} with it: {FURTHER_IN}"
    if ours not in folders:
        if not path:
            return "its PYTHONPATH was unset, which names the folder of ddptui's instruments: leave it set"
        path = path[:LONGEST_COMMAND]
        return f"its PYTHONPATH was set anew, without ddptui's folder: write PYTHONPATH={path}:$PYTHONPATH there"
    before = [Path(process.cwd(), folder, "sitecustomize.py") for folder in folders[: folders.index(ours)]]
    if hiding := next(filter(Path.exists, before), None):
        return f"{hiding} hides ddptui's own: put its folder behind $PYTHONPATH, not before"
    return ""


def _apart(process: psutil.Process) -> str:
    """What separates it from the console."""
    if process.uids().real not in (0, os.getuid()):
        return f"runs as the user {process.username()}, who may not read the run's folder: {FURTHER_IN}"
    if os.readlink(f"/proc/{process.pid}/ns/pid") != os.readlink("/proc/self/ns/pid"):
        return f"runs in a pid namespace of its own, where it does not find the console: {FURTHER_IN}"
    return ""
