"""The keeper of a launch: a process between the console and the launcher, which ends every process of the launch.

    python keeper.py FOLDER GRACE_S COMMAND...

Its standard input is a pipe whose other end only the console has. When that closes, because the console ends the launch
or has died itself, the keeper ends the launcher and all its descendants: first by SIGTERM, GRACE_S later by SIGKILL.
Then it removes FOLDER, which belongs to the launch. The keeper ends as the launcher did: with its exit code, or by its
signal.

A warm parent (workers/warm.py) is a keeper itself, of the launches that it forks, and has this one above it.
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

GRACE_S = 2.5  # from SIGTERM to SIGKILL, for ranks: they need up to 2 s to send their last messages
WARM_GRACE_S = 5.0  # … for a warm parent, which ends ranks, and deletes their folder
ORPHANS_S = 0.5  # from the launcher's own end to SIGKILL for the processes that it left
POLL_S = 0.02
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h
CONSOLE = 0  # standard input: the pipe
LISTENED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)
TRACKER = "resource_tracker"  # multiprocessing's: it deletes shared memory that killed processes have left


def main() -> None:
    """Starts the command, and waits for its end, or for the console to close the pipe."""
    folder, grace_s, *command = sys.argv[1:]
    woken = listen()
    launcher = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,  # the pipe is for the keeper alone
        preexec_fn=partial(die_with, os.getpid()),
        close_fds=False,
        start_new_session=True,  # a rank that signals its group must not reach the keeper
    )
    keeper = Keeper(folder, launcher.pid)
    while keeper.status is None:
        ready, _, _ = select.select([CONSOLE, woken], [], [])
        if CONSOLE in ready:  # the pipe's end: the console writes nothing into it
            keeper.end(float(grace_s))
        else:
            os.read(woken, 4096)
            keeper.reap()
    keeper.wait_and_kill(ORPHANS_S)
    end_like(keeper.status)


class Keeper:
    """A started launcher, and its descendants. `status` is os.wait's of the launcher; None while it runs."""

    def __init__(self, folder: str, launcher: int) -> None:
        """folder: belongs to the launch. launcher: its process id, a child of this process, which listens already."""
        self.status: int | None = None
        self._folder, self._launcher = folder, launcher

    def end(self, grace_s: float = GRACE_S) -> None:
        """Ends every process of the launch, and removes its folder: a console that was killed cannot."""
        send(self.descendants(), signal.SIGTERM)
        self.wait_and_kill(grace_s)
        shutil.rmtree(self._folder, ignore_errors=True)

    def reap(self) -> None:
        """Collects the processes that have ended, and notes the launcher's status."""
        with suppress(ChildProcessError):  # no child is left
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)  # not Popen.wait: adopted orphans have to be collected, too
                if pid == 0:  # those that are left still run
                    return
                if pid == self._launcher:
                    self.status = status

    def descendants(self) -> list[psutil.Process]:
        """All processes of the launch that have not ended."""
        self.reap()  # first: psutil lists zombies as well
        return psutil.Process().children(recursive=True)

    def wait_and_kill(self, wait_s: float) -> None:
        """Waits for the processes to end, then kills those that are left, and those that they start meanwhile."""
        gone = self._gone_within(wait_s)
        while not gone:
            processes = self.descendants()
            # the resource trackers come last, because they delete what the others have shared
            send([process for process in processes if not is_tracker(process)] or processes, signal.SIGKILL)
            gone = self._gone_within(ORPHANS_S)

    def _gone_within(self, wait_s: float) -> bool:
        deadline = time.monotonic() + wait_s
        while self.descendants():
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_S)
        return True


def listen() -> int:
    """Keeps signals from ending this process, and makes it the parent of orphans, whatever session they are in: before
    a launcher starts, which may end at once. Returns a descriptor that is readable when a signal has come."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    for number in LISTENED:
        signal.signal(number, lambda *_: None)  # not SIG_IGN, which the launcher would inherit through exec
    woken, wake = os.pipe()
    os.set_blocking(wake, False)  # as set_wakeup_fd requires
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)  # full: there is enough to wake up for
    return woken


def send(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    """Sends a signal to those of the processes that still exist."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def is_tracker(process: psutil.Process) -> bool:
    """Whether this is a resource tracker of Python's multiprocessing."""
    try:
        return TRACKER in " ".join(process.cmdline())
    except psutil.Error:
        return False


def die_with(keeper: int) -> None:
    """Has the kernel kill the launcher if the keeper itself is killed. Runs in the launcher, before its command."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != keeper:  # the keeper was killed before that call
        os._exit(1)


def prctl(option: int, value: int) -> None:
    """Calls prctl(2) on Linux; does nothing elsewhere."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def end_like(status: int) -> None:
    """Ends this process with the exit code, or by the signal, of a status."""
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the launcher has dumped its own core
        with suppress(OSError, ValueError):  # SIGKILL has no handler to reset
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


if __name__ == "__main__":
    main()
