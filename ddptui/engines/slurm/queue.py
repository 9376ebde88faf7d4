"""Asks Slurm where a job stands: one question for all of it, less and less often while nothing changes, in a thread."""

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
SLICE_S = 0.2  # to look for the file in which the job's script says that it ends


class JobPoller:
    """Follows a job until it is over."""

    def __init__(self, job: int, folder: Path) -> None:
        """folder: the launch's, where the job's script leaves its exit code, in a line for each of an array."""
        self.standing = SUBMITTED
        self._job = job
        self._mark = folder / ENDED
        self._said: list[str] = []
        self._trouble = ""
        self._asked_for = threading.Event()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="slurm", daemon=True)
        self._thread.start()

    def take_notices(self) -> list[str]:
        """What has not been said yet."""
        said = list(self._said)
        del self._said[: len(said)]  # not a new list: the thread may be about to add to this one
        return said

    def hurry(self) -> None:
        """Something has happened: do not wait for long before looking."""
        self._asked_for.set()

    def close(self) -> None:
        """Look no more."""
        self._closed.set()
        self._asked_for.set()
        self._thread.join()

    def look_back(self) -> None:
        """Once more, when the job has been ended from here. Only what its end had besides is news then: that its time
        was up, say; who ends a job makes its tasks fail."""
        if (before := self.standing).exit_code is None:
            said = list(self._said)
            self.look()
            if self.standing.why is None or self.standing.was_cancelled:
                self.standing, self._said = before, said

    def look(self) -> bool:
        """Whether the job stands elsewhere than at the last look. Of a Slurm that does not answer, nothing is
        concluded."""
        before = self.standing
        try:
            now = job_status(look(self._job, self._codes()), had_begun=self._has_begun())
        except SlurmError as error:
            self._complain(str(error))
            return False
        self._trouble = ""
        if now.says and now.says != before.says:
            self._said.append(now.says)
        self.standing = now
        return now != before

    def _follow(self) -> None:
        pause_s, needed = FIRST_PAUSE_S, True
        while not self._closed.is_set():
            changed = self.look()
            if self.standing.exit_code is not None:
                return
            pause_s = FIRST_PAUSE_S if changed or needed else min(2 * pause_s, LONGEST_PAUSE_S)
            needed = self._is_needed_within(pause_s)

    def _is_needed_within(self, pause_s: float) -> bool:
        """Whether somebody wants a look before the pause is over: this console, or the job, which has ended."""
        deadline, size = time.monotonic() + pause_s, self._size_of_mark()
        while time.monotonic() < deadline:
            if self._asked_for.wait(SLICE_S) or self._size_of_mark() > size:
                self._asked_for.clear()
                return True
        return False

    def _has_begun(self) -> bool:
        return self.standing is not SUBMITTED and not self.standing.is_waiting

    def _codes(self) -> list[str]:
        try:
            return self._mark.read_text(encoding="utf-8").split()
        except (OSError, UnicodeDecodeError):
            return []

    def _size_of_mark(self) -> int:
        try:
            return self._mark.stat().st_size
        except OSError:
            return 0

    def _complain(self, why: str) -> None:
        """Once, until Slurm has answered again."""
        if not self._trouble:
            self._said.append(f"what is known of job {self._job} may be old: {why}")
        self._trouble = why


def look(job: int, codes: list[str]) -> list[TaskGroup]:
    """All parts of a job, or the job itself. codes: the exit codes that its script has left. Raises SlurmError."""
    try:
        parts = read_queue(run(*QUEUE, f"--jobs={job}"))
    except UnknownJob:
        parts = []
    if not parts:
        return _history(job) or _as_the_script_says(job, codes)
    if any(is_over(part) and part.state == CANCELLED for part in parts):
        return _history(job) or parts
    if any(is_over(part) and part.state != COMPLETED for part in parts):
        return _details(job) or parts
    return parts


def _history(job: int) -> list[TaskGroup]:
    """What the accounting knows; nothing where there is none."""
    with suppress(SlurmError):
        return [_with_name(part) for part in read_history(run(*HISTORY, f"--jobs={job}"))]
    return []


def _details(job: int) -> list[TaskGroup]:
    with suppress(SlurmError):
        return read_details(run("scontrol", "--oneliner", "show", "job", str(job)))
    return []


def _as_the_script_says(job: int, codes: list[str]) -> list[TaskGroup]:
    """Of a job that Slurm has forgotten."""
    worst = next((code for code in codes if code != "0"), "0") if codes else None
    if worst is None:
        return [TaskGroup(str(job), LOST)]
    return [TaskGroup(str(job), COMPLETED if worst == "0" else FAILED, exit=f"{worst}:0")]


def _with_name(part: TaskGroup) -> TaskGroup:
    with suppress(KeyError, ValueError):
        return part._replace(by=pwd.getpwuid(int(part.by)).pw_name)
    return part
