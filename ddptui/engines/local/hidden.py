"""Finds out why processes of a watched command that use torch are not watched, from what the system reports about them
while they run. The processes are only inspected."""

import os
import re
import time
from contextlib import suppress
from pathlib import Path

import psutil

from ddptui.host.folders import lab_root
from ddptui.wire.connection import WATCHED

LOOK_EVERY_S = 0.3  # importing torch alone takes longer
MOST_PART = 0.1  # largest fraction of this process's time to spend on looking
LONGEST_COMMAND = 80  # characters
IGNORES = {"I": "ignores PYTHONPATH", "E": "ignores PYTHONPATH", "S": "imports no sitecustomize"}  # options of Python
# options without values, then one with a value, which may be the next word; after -c and -m come the program's options
OPTION = re.compile(r"-([^-cmWX]*)([cmWX]?)(.*)", re.DOTALL)
FURTHER_IN = "put `ddptui watch --` directly before the command that starts the training"


def injected_folder() -> str:
    """The folder that is put first in a watched command's PYTHONPATH."""
    return str(lab_root() / "workers" / "watch" / "inject")


class HiddenRanks:
    """Looks for processes below a command that use torch without ddptui's instruments."""

    def __init__(self, pid: int) -> None:
        """pid: the process id of the command."""
        self._pid = pid
        self._why: dict[psutil.Process, str] = {}  # processes that use torch, and why each is not watched
        self._look_at = 0.0  # when to look next, by time.monotonic()

    def look(self) -> None:
        """Record processes that have begun to use torch. May be called often: most calls return at once."""
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
        """Why the last process found is not watched; empty if no process was found, or no reason is known."""
        return next(reversed(self._why.values()), "")


def _uses_torch(pid: int) -> bool:
    with suppress(OSError):  # the process has ended or belongs to another user, or the system has no such file
        return b"/libtorch" in Path(f"/proc/{pid}/maps").read_bytes()
    return False


def _why_hidden(process: psutil.Process) -> str:
    try:
        words, variables = process.cmdline(), process.environ()
        command = " ".join(" ".join(words).split())[:LONGEST_COMMAND]
        who = f"not watched: process {process.pid} ({command}) uses torch, but"
        why = _ignoring(words) or _lacking(variables, process) or _apart(process)
    except (psutil.Error, OSError):
        return ""
    return f"{who} {why}" if why else ""


def _ignoring(words: list[str]) -> str:
    """A clause about the option of Python that keeps the instruments from loading; empty if there is none."""
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
    """A clause about the environment variable that keeps the instruments from loading; empty if there is none."""
    path, ours = variables.get("PYTHONPATH"), injected_folder()
    folders = path.split(os.pathsep) if path else []
    if WATCHED not in variables:
        return f"its environment was cleared, {WATCHED} with it: {FURTHER_IN}"
    if ours not in folders:
        if not path:
            return "its PYTHONPATH, which names the folder of ddptui's instruments, was unset: leave it set"
        path = path[:LONGEST_COMMAND]
        return f"its PYTHONPATH was replaced, without ddptui's folder: use PYTHONPATH={path}:$PYTHONPATH there"
    before = [Path(process.cwd(), folder, "sitecustomize.py") for folder in folders[: folders.index(ours)]]
    if hiding := next(filter(Path.exists, before), None):
        return f"{hiding} hides ddptui's own: put its folder after $PYTHONPATH, not before it"
    return ""


def _apart(process: psutil.Process) -> str:
    """A clause about what separates the process from the console; empty if nothing does."""
    if process.uids().real not in (0, os.getuid()):
        return f"runs as the user {process.username()}, who may not read the run's folder: {FURTHER_IN}"
    if os.readlink(f"/proc/{process.pid}/ns/pid") != os.readlink("/proc/self/ns/pid"):
        return f"runs in a pid namespace of its own, where it does not find the console: {FURTHER_IN}"
    return ""
