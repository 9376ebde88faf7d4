"""The Slurm job of a run: checks whether it can be submitted, submits it, follows its state, and cancels it."""

import pwd
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ddptui.config.preset import EngineOptions
from ddptui.engines.base import LaunchRefused
from ddptui.engines.slurm import keeper, states
from ddptui.engines.slurm.keeper import SlurmError, UnknownJob, run
from ddptui.engines.slurm.script import engine_options
from ddptui.engines.slurm.states import JobRow, JobStatus, job_status

QUEUE = ("squeue", "--noheader", "--states=all", f"--format={states.QUEUE_FORMAT}")  # all: includes ended jobs
HISTORY = ("sacct", "--noheader", "--allocations", "--parsable2", f"--format={states.HISTORY_FIELDS}")
SUBMIT_S = 30.0  # timeout for sbatch, which a busy controller delays
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 30.0  # between calls of squeue, which load the controller of the whole cluster
HURRY_S = 0.5
CLOSE_S = 1.0  # time for a pending answer
COMMANDS = ("sbatch", "squeue", "scancel")
CHECK_S = 20.0  # Slurm's commands give up on an unresponsive controller after about 10 s
NOT_NOW = "Requested node configuration is not available"  # the nodes are down for now, so the job would wait


def refusal(engine: EngineOptions) -> str | None:
    """Why no job can be submitted: Slurm is missing here, or would reject these options. None: a job can be
    submitted."""
    try:
        options = engine_options(engine)
        if missing := [command for command in COMMANDS if shutil.which(command) is None]:
            where = "run this on a host that submits jobs, such as a cluster's login node"
            return f"{missing[0]} is not on PATH: {where} (on Debian, the package slurm-client has it)"
        run("sbatch", "--test-only", "--nodes=1", "--ntasks=1", *options, "--wrap=true", within_s=CHECK_S)
    except SlurmError as error:
        return None if NOT_NOW in str(error) else str(error)  # the only temporary error
    return None


class Job:
    """A Slurm job. A thread updates `status`, less often while nothing changes. slurm/keeper.py cancels the job if this
    process dies."""

    def __init__(self, name: str, ticket: Path, log: Path) -> None:
        """ticket: the file without which the job's nodes cannot join. Raises OSError."""
        self.status = JobStatus("")
        self._name = name
        self._number: int | None = None  # None until sbatch has answered
        self._notices: list[str] = []
        self._trouble = ""
        self._wakeup = threading.Event()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="slurm", daemon=True)
        with log.open("ab") as output:
            self._keeper = subprocess.Popen(
                [sys.executable, "-P", keeper.__file__, name, str(ticket)],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                start_new_session=True,  # Ctrl-C in the terminal must not reach it
            )

    def submit(self, options: Sequence[str], script: Path) -> None:
        """Submits the script. Raises LaunchRefused."""
        try:
            # options on the command line override the user's SBATCH_ variables, which override the script
            printed = run("sbatch", "--parsable", *options, str(script), within_s=SUBMIT_S)
            self._number = int(printed.split()[-1].partition(";")[0])  # some sites print other lines before it
        except (SlurmError, ValueError, IndexError) as error:
            is_refused = isinstance(error, SlurmError)
            why = f"no job was submitted: {error}" if is_refused else f"no number in sbatch's answer: {printed!r}"
            self.status = JobStatus(why, is_over=True)
            raise LaunchRefused(why) from None
        self._thread.start()

    def take_notices(self) -> list[str]:
        """New notices about the job since the last call."""
        notices = list(self._notices)
        del self._notices[: len(notices)]  # keeps the list, because the thread may be appending to it
        return notices

    def hurry(self) -> None:
        """Makes the thread check the job's state at once."""
        self._wakeup.set()

    def wait_for_end(self, within_s: float) -> None:
        """Waits until the job is over, at most within_s. Stops waiting if Slurm does not answer."""
        deadline = time.monotonic() + within_s
        while not self.status.is_over and not self._trouble and time.monotonic() < deadline:
            self.hurry()
            time.sleep(HURRY_S)

    def close(self) -> str | None:
        """Waits until the job has left the queue, and cancels it if necessary. Returns None, or, as soon as Slurm does
        not answer, a sentence that says why the job may still be running and how to cancel it."""
        self._closed.set()
        self._wakeup.set()
        if self._thread.is_alive():
            self._thread.join(CLOSE_S)
        if why := keeper.cancel(self._name, keeper.CANCEL_WITHIN_S, keeper.PATIENCE_S, gives_up=True):
            return self.leave(why)
        assert self._keeper.stdin is not None
        with suppress(BrokenPipeError), self._keeper.stdin as pipe:
            pipe.write(keeper.END)
        self._keeper.wait()
        return None

    def leave(self, why: str) -> str:
        """Leaves canceling the job to the keeper. Returns a sentence that says why the job may still be running and how
        to cancel it."""
        assert self._keeper.stdin is not None
        self._keeper.stdin.close()
        threading.Thread(target=self._keeper.wait, name="keeper", daemon=True).start()
        job, ends_it = f"job {self._number}", f"`scancel {self._number}`"
        if self._number is None:
            job, ends_it = f"job {self._name}", f"`scancel --name={self._name}`"
        goes_on = f"a process here tries to end it for {keeper.CANCEL_ALONE_S / 60:g} minutes"
        return f"{job} may be left ({why}): {goes_on}; or cancel it with {ends_it}"

    def _follow(self) -> None:
        pause_s = FIRST_PAUSE_S
        while not self._closed.is_set():
            before = self.status
            self._look()
            if self.status.is_over:
                return
            pause_s = FIRST_PAUSE_S if self.status != before else min(2 * pause_s, LONGEST_PAUSE_S)
            if self._wakeup.wait(pause_s):
                self._wakeup.clear()
                pause_s = FIRST_PAUSE_S

    def _look(self) -> None:
        """Updates the status. It stays the same while Slurm does not answer."""
        assert self._number is not None
        try:
            now = job_status(self._number, _ask(self._number))
        except SlurmError as error:
            if not self._trouble:  # report it once, until Slurm answers again
                self._notices.append(f"the state of job {self._number} may be out of date: {error}")
            self._trouble = str(error)
            return
        self._trouble = ""
        if now.text != self.status.text:
            self._notices.append(now.text)
        self.status = now


def _ask(number: int) -> JobRow:
    """Slurm's information about a job. Raises SlurmError."""
    row = None
    with suppress(UnknownJob):
        row = states.read_queue(run(*QUEUE, f"--jobs={number}"))
    # squeue forgets a job minutes after its end (MinJobAge), and does not know who canceled it; the accounting may
    if row is None or row.state == states.CANCELLED:
        with suppress(SlurmError):  # there is no accounting
            row = states.read_history(run(*HISTORY, f"--jobs={number}")) or row
    if row is None:
        return JobRow(states.LOST)
    with suppress(KeyError, ValueError):  # not a user of this host, or already a name
        return row._replace(by=pwd.getpwuid(int(row.by)).pw_name)
    return row
