"""Ends a training of the user's own, where the user wants it ended."""

import os
import signal
from contextlib import suppress

import psutil

from ddptui.host.keeper import send
from ddptui.wire.connection import WATCHED

END_WITHIN_S = 10.0  # from SIGTERM to SIGKILL
LOOKS = 3  # for processes that started while the others ended


def end_watched(console: str, command: psutil.Process | None = None) -> None:
    """End the processes that were started with this file to find their console in, and those below them: by SIGTERM,
    and those that are left then by SIGKILL. command: it, too, also where it has cleared its environment."""
    for _ in range(LOOKS):
        roots = _watched_by(console)
        if command is not None and command.is_running():  # not another process that has its number by now
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
        with suppress(psutil.Error):  # it has ended, or is another user's
            if process.environ().get(WATCHED) == console and process.pid != os.getpid():
                found.append(process)
    return found
