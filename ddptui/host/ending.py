"""Ends the user's own training under `ddptui watch`, at the user's request."""

import os
import signal
from contextlib import suppress

import psutil

from ddptui.host.keeper import send
from ddptui.wire.connection import WATCHED

END_WITHIN_S = 10.0  # from SIGTERM to SIGKILL
LOOKS = 3  # number of searches: new processes may start while others end


def end_watched(console: str, command: psutil.Process | None = None) -> None:
    """End all watched processes, and their descendants: first by SIGTERM, later by SIGKILL.

    Watched processes are those whose environment names the file `console`. command: end this process, too, even if it
    has cleared its environment.
    """
    for _ in range(LOOKS):
        roots = _watched_by(console)
        if command is not None and command.is_running():  # False if another process has the same id by now
            roots.append(command)
        if not roots:
            return
        family = {*roots}
        for root in roots:
            with suppress(psutil.NoSuchProcess):
                family |= {*root.children(recursive=True)}
        send(family, signal.SIGTERM)
        _, left = psutil.wait_procs(family, timeout=END_WITHIN_S)
        send(left, signal.SIGKILL)
        psutil.wait_procs(left, timeout=END_WITHIN_S)


def _watched_by(console: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):  # it has ended, or belongs to another user
            if process.environ().get(WATCHED) == console and process.pid != os.getpid():
                found.append(process)
    return found
