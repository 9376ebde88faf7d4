"""Polls the state of a job in a thread: one question for the whole job, less often while nothing changes."""

import pwd
import threading
import time
from contextlib import suppress
from pathlib import Path

from ddptui.engines.slurm import states
from ddptui.engines.slurm.keeper import SlurmError, UnknownJob, run
from ddptui.engines.slurm.script import ENDED
from ddptui.engines.slurm.states import SUBMITTED, TaskGroup, is_over, job_status

# --array: a line for each job of an array, not one for all that wait; all: also those that have just ended
QUEUE = ("squeue", "--noheader", "--array", "--states=all", f"--format={states.QUEUE_FORMAT}")
HISTORY = ("sacct", "--noheader", "--parsable2", f"--format={states.HISTORY_FIELDS}")
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 30.0  # every squeue costs the controller of the whole cluster
CLOSE_S = 1.0  # for an answer that is under way
SLICE_S = 0.2  # how often the file is checked in which the script of the job leaves its exit code


class JobPoller:
    """Follows a job until it is over. `status` is its state at the last look."""

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
        """Ends the thread, which may wait for Slurm's answer."""
        self._closed.set()
        self._wakeup.set()
        self._thread.join(CLOSE_S)

    def look_after_stop(self) -> None:
        """Looks once more when this console has ended the job, in case it ended for another reason before."""
        if (before := self.status).exit_code is None:
            notices = list(self._notices)
            self.look()
            # that it was cancelled, or that its tasks failed, is the console's own doing; its time limit is not
            if self.status.why is None or self.status.was_cancelled:
                self.status, self._notices = before, notices

    def look(self) -> bool:
        """Asks Slurm. Returns whether the state has changed; it stays the same while Slurm does not answer."""
        before = self.status
        try:
            codes = self._exit_code_file.read_text(encoding="utf-8").split()
        except (OSError, UnicodeDecodeError):
            codes = []
        try:
            had_begun = before is not SUBMITTED and not before.is_waiting
            now = job_status(look(self._job, codes), had_begun=had_begun)
        except SlurmError as error:
            if not self._trouble:  # reported once, until Slurm has answered again
                self._notices.append(f"the state of job {self._job} may be out of date: {error}")
            self._trouble = str(error)
            return False
        if self._closed.is_set() and threading.current_thread() is self._thread:
            return False  # the answer came too late
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

    def _size_of_exit_codes(self) -> int:
        try:
            return self._exit_code_file.stat().st_size
        except OSError:
            return 0


def look(job: int, codes: list[str]) -> list[TaskGroup]:
    """The parts of a job: of an array all its jobs, else itself. `codes`: left by its script. Raises SlurmError."""
    try:
        parts = states.read_queue(run(*QUEUE, f"--jobs={job}"))
    except UnknownJob:
        parts = []
    if not parts:  # squeue forgets a job minutes after its end (MinJobAge)
        return _history(job) or _by_exit_codes(job, codes)
    if any(is_over(part) and part.state == states.CANCELLED for part in parts):
        return _history(job) or parts  # only the accounting knows who cancelled it
    if any(is_over(part) and part.state != states.COMPLETED for part in parts):
        with suppress(SlurmError):  # unlike squeue, scontrol prints the exit code
            return states.read_details(run("scontrol", "--oneliner", "show", "job", str(job))) or parts
    return parts


def _history(job: int) -> list[TaskGroup]:
    """What the accounting (sacct) knows; empty where there is none."""
    with suppress(SlurmError):
        return [_with_name(part) for part in states.read_history(run(*HISTORY, f"--jobs={job}"))]
    return []


def _with_name(part: TaskGroup) -> TaskGroup:
    with suppress(KeyError, ValueError):  # no user of this host, or a name already
        return part._replace(by=pwd.getpwuid(int(part.by)).pw_name)
    return part


def _by_exit_codes(job: int, codes: list[str]) -> list[TaskGroup]:
    """The end of a job that Slurm has forgotten, by its exit codes."""
    if not codes:
        return [TaskGroup(str(job), states.LOST)]
    worst = next((code for code in codes if code != "0"), "0")
    return [TaskGroup(str(job), states.COMPLETED if worst == "0" else states.FAILED, exit=f"{worst}:0")]
