"""Keeps a launch: between the console and the launcher stands this process, and sees to it that nobody is left behind.

    python keeper.py FOLDER COMMAND...

Its standard input is a pipe whose other end only the console has. When that closes, because the console wants the end
or because it is gone, however it went, the keeper ends the launcher and all who descend from it, first politely, then
not, and removes FOLDER, which is the launch's own. It ends as the launcher did: with its exit code, or by its signal.

On Linux it is the "subreaper" of all whom it has started: orphans become its children, whatever session they are in.
"""

import ctypes
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from functools import partial

import psutil

POLITE_S = 2.5  # from SIGTERM to SIGKILL
ALONE_S = 0.5  # from the launcher's own end to SIGKILL for those whom it left
LOOK_EVERY_S = 0.02
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h
CONSOLE = 0  # the pipe's descriptor
NAME_OF_TRACKERS = "resource_tracker"


def main() -> None:
    folder, *command = sys.argv[1:]
    woken = _listen()
    keeper = Keeper(command)
    while keeper.status is None:
        ready, _, _ = select.select([CONSOLE, woken], [], [])
        if CONSOLE in ready:
            keeper.tell_all_to_end()
            keeper.end(POLITE_S)
            shutil.rmtree(folder, ignore_errors=True)
        else:
            os.read(woken, 4096)
            keeper.reap()
    keeper.end(ALONE_S)
    end_like(keeper.status)


class Keeper:
    """A started command, and whoever it starts. `status`: of its end, as os.wait has it; none while it runs."""

    def __init__(self, command: list[str]) -> None:
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        self.status: int | None = None
        self._launcher = subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=partial(die_with, os.getpid()))

    def reap(self) -> None:
        """Take note of those who have ended."""
        with suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                if pid == self._launcher.pid:
                    self.status = status

    def left(self) -> list[psutil.Process]:
        """All who are still there."""
        self.reap()
        return psutil.Process().children(recursive=True)

    def tell_all_to_end(self) -> None:
        send(self.left(), signal.SIGTERM)

    def end(self, patience_s: float) -> None:
        """Wait for those who are left, and kill who does not go, and who is born meanwhile; last of all the trackers,
        which take away what the others have shared."""
        gone = self._gone_within(patience_s)
        while not gone:
            left = self.left()
            send([each for each in left if not is_tracker(each)] or left, signal.SIGKILL)
            gone = self._gone_within(ALONE_S)

    def _gone_within(self, patience_s: float) -> bool:
        deadline = time.monotonic() + patience_s
        while self.left():
            if time.monotonic() > deadline:
                return False
            time.sleep(LOOK_EVERY_S)
        return True


def _listen() -> int:
    """No signal ends the keeper (and none is ignored: that would be inherited). Returns what can be read when one
    comes, the end of a child above all."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    return woken


def send(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def is_tracker(process: psutil.Process) -> bool:
    try:
        return NAME_OF_TRACKERS in " ".join(process.cmdline())
    except psutil.Error:
        return False


def die_with(keeper: int) -> None:
    """So that nobody is left even if the keeper itself is killed; perhaps it was already, before the kernel knew."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != keeper:
        os._exit(1)


def prctl(option: int, value: int) -> None:
    """Linux only; elsewhere nothing happens."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def end_like(status: int) -> None:
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the launcher has left its own
        with suppress(OSError, ValueError):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


if __name__ == "__main__":
    main()
