"""Polls the state of a job in a thread: one question for the whole job, less often while nothing changes."""

import pwd
import threading
import time
from contextlib import suppress
from pathlib import Path

from ddptui.engines.slurm.keeper import SlurmError, UnknownJob, run
from ddptui.engines.slurm.script import ENDED
from ddptui.engines.slurm.states import (
    CANCELLED,
    COMPLETED,
    FAILED,
    HISTORY_FIELDS,
    LOST,
    QUEUE_FORMAT,
    SUBMITTED,
    TaskGroup,
    is_over,
    job_status,
    read_details,
    read_history,
    read_queue,
)

QUEUE = ("squeue", "--noheader", "--array", "--states=all", f"--format={QUEUE_FORMAT}")
HISTORY = ("sacct", "--noheader", "--parsable2", f"--format={HISTORY_FIELDS}")
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 30.0
SLICE_S = 0.2  # how often the file is checked in which the script of the job leaves its exit code


class JobPoller:
    """Follows a job until it is over."""

    def __init__(self, job: int, folder: Path) -> None:
        """`folder` is the launch's: the script leaves its exit code there, a line for each job of an array."""
        self.status = SUBMITTED
        self._job = job
        self._exit_code_file = folder / ENDED
        self._notices: list[str] = []
        self._trouble = ""
        self._wakeup = threading.Event()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="slurm", daemon=True)
        self._thread.start()

    def take_notices(self) -> list[str]:
        """What has changed since the last call, in words."""
        notices = list(self._notices)
        del self._notices[: len(notices)]  # not a new list: the thread may be about to append to this one
        return notices

    def hurry(self) -> None:
        """Has the thread look at once, because something has happened."""
        self._wakeup.set()

    def close(self) -> None:
        """Ends the thread."""
        self._closed.set()
        self._wakeup.set()
        self._thread.join()

    def look_after_stop(self) -> None:
        """Looks once more when this console has ended the job. The state changes only if it ended for another reason,
        such as its time limit: that it was cancelled, or that its tasks failed, is the console's own doing."""
        if (before := self.status).exit_code is None:
            notices = list(self._notices)
            self.look()
            if self.status.why is None or self.status.was_cancelled:
                self.status, self._notices = before, notices

    def look(self) -> bool:
        """Asks Slurm. Returns whether the state has changed; it stays the same while Slurm does not answer."""
        before = self.status
        try:
            now = job_status(look(self._job, self._codes()), had_begun=self._has_begun())
        except SlurmError as error:
            self._complain(str(error))
            return False
        self._trouble = ""
        if now.text and now.text != before.text:
            self._notices.append(now.text)
        self.status = now
        return now != before

    def _follow(self) -> None:
        pause_s, needed = FIRST_PAUSE_S, True
        while not self._closed.is_set():
            changed = self.look()
            if self.status.exit_code is not None:
                return
            pause_s = FIRST_PAUSE_S if changed or needed else min(2 * pause_s, LONGEST_PAUSE_S)
            needed = self._wait_for_need(pause_s)

    def _wait_for_need(self, pause_s: float) -> bool:
        """Waits. Returns whether a look is needed earlier: the console asks for one, or the script has ended."""
        deadline, size = time.monotonic() + pause_s, self._size_of_exit_codes()
        while time.monotonic() < deadline:
            if self._wakeup.wait(SLICE_S) or self._size_of_exit_codes() > size:
                self._wakeup.clear()
                return True
        return False

    def _has_begun(self) -> bool:
        return self.status is not SUBMITTED and not self.status.is_waiting

    def _codes(self) -> list[str]:
        try:
            return self._exit_code_file.read_text(encoding="utf-8").split()
        except (OSError, UnicodeDecodeError):
            return []

    def _size_of_exit_codes(self) -> int:
        try:
            return self._exit_code_file.stat().st_size
        except OSError:
            return 0

    def _complain(self, why: str) -> None:
        """Reports trouble once, until Slurm has answered again."""
        if not self._trouble:
            self._notices.append(f"the state of job {self._job} may be out of date: {why}")
        self._trouble = why


def look(job: int, codes: list[str]) -> list[TaskGroup]:
    """The parts of a job: of an array all its jobs, else itself. codes: the exit codes that the script has left.

    Raises SlurmError.
    """
    try:
        parts = read_queue(run(*QUEUE, f"--jobs={job}"))
    except UnknownJob:
        parts = []
    if not parts:
        return _history(job) or _by_exit_codes(job, codes)
    if any(is_over(part) and part.state == CANCELLED for part in parts):
        return _history(job) or parts
    if any(is_over(part) and part.state != COMPLETED for part in parts):
        return _details(job) or parts
    return parts


def _history(job: int) -> list[TaskGroup]:
    """What the accounting (sacct) knows; empty where there is none."""
    with suppress(SlurmError):
        return [_with_name(part) for part in read_history(run(*HISTORY, f"--jobs={job}"))]
    return []


def _details(job: int) -> list[TaskGroup]:
    with suppress(SlurmError):
        return read_details(run("scontrol", "--oneliner", "show", "job", str(job)))
    return []


def _by_exit_codes(job: int, codes: list[str]) -> list[TaskGroup]:
    """The end of a job that Slurm has forgotten, by its exit codes."""
    worst = next((code for code in codes if code != "0"), "0") if codes else None
    if worst is None:
        return [TaskGroup(str(job), LOST)]
    return [TaskGroup(str(job), COMPLETED if worst == "0" else FAILED, exit=f"{worst}:0")]


def _with_name(part: TaskGroup) -> TaskGroup:
    with suppress(KeyError, ValueError):
        return part._replace(by=pwd.getpwuid(int(part.by)).pw_name)
    return part
