"""The keeper of a launch, a process that ends every process of the launch with the console; ends the user's own
training on request.

    python keeper.py FOLDER GRACE_S COMMAND...

Its standard input is a pipe whose other end only the console holds. The pipe closes when the console ends the launch or
dies. Then the keeper ends the launcher and all its descendants: first by SIGTERM, GRACE_S later by SIGKILL. Then it
removes FOLDER, the temporary folder of the launch. The keeper ends as the launcher did: with the same exit code, or by
the same signal.

A warm parent (workers/warm.py) is the keeper of the launches that it forks, and has a keeper of this kind above it.
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

from ddptui.wire.connection import WATCHED

GRACE_S = 2.5  # from SIGTERM to SIGKILL: ranks need up to 2 s to send their last messages
WARM_GRACE_S = 5.0  # the same for a warm parent, which has to end its ranks and delete their folder
ORPHANS_S = 0.5  # from the launcher's end to SIGKILL for processes that it left behind
POLL_S = 0.02
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h
CONSOLE = 0  # standard input: the pipe
LISTENED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)
TRACKER = "resource_tracker"  # process of Python's multiprocessing that deletes leaked shared memory


def main() -> None:
    """Starts the command, and waits until it ends or the console closes the pipe."""
    folder, grace_s, *command = sys.argv[1:]
    woken = listen()
    launcher = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,  # only the keeper may read the pipe
        preexec_fn=partial(die_with, os.getpid()),
        close_fds=False,
        start_new_session=True,  # a rank that signals its group must not reach the keeper
    )
    keeper = Keeper(folder, launcher.pid)
    while keeper.status is None:
        ready, _, _ = select.select([CONSOLE, woken], [], [])
        if CONSOLE in ready:  # the pipe was closed: the console writes nothing into it
            keeper.end(float(grace_s))
        else:
            os.read(woken, 4096)
            keeper.reap()
    keeper.wait_and_kill(ORPHANS_S)
    end_like(keeper.status)


class Keeper:
    """A running launcher and its descendants. `status`: the launcher's exit status as from os.wait; None while it
    runs."""

    def __init__(self, folder: str, launcher: int) -> None:
        """folder: the temporary folder of the launch. launcher: the process id of the launcher, a child of this
        process. `listen` must have been called before the launcher was started."""
        self.status: int | None = None
        self._folder, self._launcher = folder, launcher

    def end(self, grace_s: float = GRACE_S) -> None:
        """Ends every process of the launch and removes its folder, which a console that was killed cannot do."""
        send(self.descendants(), signal.SIGTERM)
        self.wait_and_kill(grace_s)
        shutil.rmtree(self._folder, ignore_errors=True)

    def reap(self) -> None:
        """Reaps the processes that have ended, and records the launcher's status."""
        with suppress(ChildProcessError):  # no child is left
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)  # not Popen.wait: adopted orphans must be reaped, too
                if pid == 0:  # the remaining children are still running
                    return
                if pid == self._launcher:
                    self.status = status

    def descendants(self) -> list[psutil.Process]:
        """All processes of the launch that have not ended."""
        self.reap()  # first, because psutil also lists zombies
        return psutil.Process().children(recursive=True)

    def wait_and_kill(self, wait_s: float) -> None:
        """Waits for the processes to end, then kills the remaining ones, and any that they start meanwhile."""
        gone = self._gone_within(wait_s)
        while not gone:
            processes = self.descendants()
            # the resource trackers come last, because they delete the shared memory of the others
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
    """Keeps signals from ending this process, and makes it adopt orphaned descendants, also from other sessions. Call
    it before starting a launcher, which may end at once. Returns a file descriptor that becomes readable when a signal
    arrives."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    for number in LISTENED:
        signal.signal(number, lambda *_: None)  # not SIG_IGN, which the launcher would inherit through exec
    woken, wake = os.pipe()
    os.set_blocking(wake, False)  # as set_wakeup_fd requires
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)  # a full pipe wakes the reader just as well
    return woken


def send(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    """Sends a signal to all of the processes that still exist."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def is_tracker(process: psutil.Process) -> bool:
    """Whether the process is a resource tracker of Python's multiprocessing."""
    try:
        return TRACKER in " ".join(process.cmdline())
    except psutil.Error:
        return False


def die_with(keeper: int) -> None:
    """Asks the kernel to kill the launcher if the keeper is killed. Runs in the launcher, before its command."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != keeper:  # the keeper was killed before that call
        os._exit(1)


def prctl(option: int, value: int) -> None:
    """Calls prctl(2) on Linux; does nothing elsewhere."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def end_like(status: int) -> None:
    """Ends this process as another one ended: with the exit code, or by the signal, of its status."""
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # no second core dump: the launcher has dumped its own
        with suppress(OSError, ValueError):  # SIGKILL has no handler to reset
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


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


if __name__ == "__main__":
    main()
