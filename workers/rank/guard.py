"""No rank outlives the process that started it, nor the console, however those two end."""

import ctypes
import os
import select
import signal
import sys
import threading
import time
from contextlib import suppress

import psutil

from ddptui.wire.connection import CONSOLE_PID

PR_SET_PDEATHSIG = 1  # linux/prctl.h
POLL_S = 0.25

_guarded_pid: int | None = None


def die_with_parent() -> None:
    """Ask the kernel to kill this process when the one that started it dies. Linux; reaches even a stopped process."""
    if not sys.platform.startswith("linux"):
        return
    parent = os.getppid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died before the kernel knew of our wish
        _end()


def die_with_console() -> None:
    """End this process when the console ends. Without a console (started by hand) do nothing."""
    global _guarded_pid
    if CONSOLE_PID in os.environ and _guarded_pid != os.getpid():
        _guarded_pid = os.getpid()
        threading.Thread(target=_monitor, args=(int(os.environ[CONSOLE_PID]),), name="guard", daemon=True).start()


def _monitor(pid: int) -> None:
    """Wait for the death of `pid`, then end this process. A descriptor costs nothing while it waits; polling is for
    systems that have none, and for when there is none left."""
    try:
        select.select([os.pidfd_open(pid)], [], [])
    except (AttributeError, OSError):
        _poll(pid)
    _end()


def _poll(pid: int) -> None:
    with suppress(psutil.NoSuchProcess):
        console = psutil.Process(pid)
        while console.is_running() and console.status() != psutil.STATUS_ZOMBIE:
            time.sleep(POLL_S)


def _end() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
