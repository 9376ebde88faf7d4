"""Ends a rank when its parent process or the console ends, even if they are killed."""

import os
import select
import signal
import threading
import time
from contextlib import suppress

import psutil

from ddptui.host.keeper import PR_SET_PDEATHSIG, prctl
from ddptui.wire.connection import CONSOLE_PID

POLL_S = 0.25

_guarded_pid: int | None = None  # a fork inherits this variable, but not the thread of that process


def die_with_parent() -> None:
    """Have the kernel kill this process, even if it is stopped, when its parent dies. Only on Linux."""
    parent = os.getppid()
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the parent died before the call
        _end()


def die_with_console() -> None:
    """End this process when the console ends. Does nothing without a console, as for ranks started by hand."""
    global _guarded_pid
    if CONSOLE_PID in os.environ and _guarded_pid != os.getpid():
        _guarded_pid = os.getpid()
        threading.Thread(target=_monitor, args=(int(os.environ[CONSOLE_PID]),), name="guard", daemon=True).start()


def _monitor(pid: int) -> None:
    """Wait for the end of `pid`, then end this process."""
    try:
        select.select([os.pidfd_open(pid)], [], [])  # costs nothing, unlike polling
    except (AttributeError, OSError):  # the system has no pidfd, or the process no free descriptor
        with suppress(psutil.NoSuchProcess):
            console = psutil.Process(pid)
            while console.is_running() and console.status() != psutil.STATUS_ZOMBIE:
                time.sleep(POLL_S)
    _end()


def _end() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
