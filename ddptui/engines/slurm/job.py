"""The job of a run: whether one can be submitted, and one from its submission to its end."""

import pwd
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ddptui.config.engine import EngineOptions
from ddptui.engines.base import LaunchRefused
from ddptui.engines.slurm import keeper, states
from ddptui.engines.slurm.keeper import SlurmError, UnknownJob, run
from ddptui.engines.slurm.script import engine_options
from ddptui.engines.slurm.states import JobRow, JobStatus, job_status

QUEUE = ("squeue", "--noheader", "--states=all", f"--format={states.QUEUE_FORMAT}")  # all: also jobs that have ended
HISTORY = ("sacct", "--noheader", "--allocations", "--parsable2", f"--format={states.HISTORY_FIELDS}")
SUBMIT_S = 30.0  # limit for sbatch, which a busy controller delays
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 30.0  # every squeue costs the controller of the whole cluster
HURRY_S = 0.5
CLOSE_S = 1.0  # for an answer that is under way
COMMANDS = ("sbatch", "squeue", "scancel")
CHECK_S = 20.0  # Slurm's commands give up on a silent controller after about 10 s
NOT_NOW = "Requested node configuration is not available"  # the nodes are down for now: the job would wait


def refusal(engine: EngineOptions) -> str | None:
    """That Slurm is missing here, or why it would refuse a job with these options; None: it would take one."""
    try:
        options = engine_options(engine)
        if missing := [command for command in COMMANDS if shutil.which(command) is None]:
            where = "run this on a host that submits jobs, such as a cluster's login node"
            return f"{missing[0]} is not on PATH: {where} (on Debian, the package slurm-client has it)"
        run("sbatch", "--test-only", "--nodes=1", "--ntasks=1", *options, "--wrap=true", within_s=CHECK_S)
    except SlurmError as error:
        return None if NOT_NOW in str(error) else str(error)  # the only refusal that may pass with time
    return None


class Job:
    """One job. `status` is its state at the last look of a thread, which looks less often while nothing changes.
    slurm/keeper.py cancels the job when this process dies."""

    def __init__(self, name: str, ticket: Path, log: Path) -> None:
        """`ticket`: the file without which the job's nodes cannot join. Raises OSError."""
        self.status = JobStatus("")
        self._name = name
        self._number: int | None = None  # until sbatch has answered
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
            # sbatch ranks the command line above the user's SBATCH_ variables, and these above the script
            printed = run("sbatch", "--parsable", *options, str(script), within_s=SUBMIT_S)
            self._number = int(printed.split()[-1].partition(";")[0])  # sites print lines of their own before it
        except (SlurmError, ValueError, IndexError) as error:
            is_refused = isinstance(error, SlurmError)
            why = f"no job was submitted: {error}" if is_refused else f"no number in sbatch's answer: {printed!r}"
            self.status = JobStatus(why, is_over=True)
            raise LaunchRefused(why) from None
        self._thread.start()

    def take_notices(self) -> list[str]:
        """What has changed since the last call, in words."""
        notices = list(self._notices)
        del self._notices[: len(notices)]  # not a new list: the thread may be about to append to this one
        return notices

    def hurry(self) -> None:
        """Has the thread look at once, because something has happened."""
        self._wakeup.set()

    def wait_for_end(self, within_s: float) -> None:
        """Waits until the job is over, as it is soon after one of its nodes was lost."""
        deadline = time.monotonic() + within_s
        while not self.status.is_over and not self._trouble and time.monotonic() < deadline:
            self.hurry()
            time.sleep(HURRY_S)

    def close(self) -> str | None:
        """Waits until the job has left the queue, and cancels it if need be. Returns why it may be left, and what ends
        it, as soon as Slurm does not answer; None: it is not left."""
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
        """Leaves the job to the keeper. Returns why it may be left, and what ends it."""
        assert self._keeper.stdin is not None
        self._keeper.stdin.close()
        threading.Thread(target=self._keeper.wait, name="keeper", daemon=True).start()
        job, ends_it = f"job {self._number}", f"`scancel {self._number}`"
        if self._number is None:
            job, ends_it = f"job {self._name}", f"`scancel --name={self._name}`"
        goes_on = f"a process here tries to end it for {keeper.CANCEL_ALONE_S / 60:g} minutes"
        return f"{job} may be left ({why}): {goes_on}; {ends_it} ends it, too"

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
        """Asks Slurm. The status stays the same while Slurm does not answer."""
        assert self._number is not None
        try:
            now = job_status(self._number, _ask(self._number))
        except SlurmError as error:
            if not self._trouble:  # reported once, until Slurm has answered again
                self._notices.append(f"the state of job {self._number} may be out of date: {error}")
            self._trouble = str(error)
            return
        self._trouble = ""
        if now.text != self.status.text:
            self._notices.append(now.text)
        self.status = now


def _ask(number: int) -> JobRow:
    """What Slurm knows of a job. Raises SlurmError."""
    row = None
    with suppress(UnknownJob):
        row = states.read_queue(run(*QUEUE, f"--jobs={number}"))
    # squeue forgets a job minutes after its end (MinJobAge), and never knows who cancelled it; the accounting may
    if row is None or row.state == states.CANCELLED:
        with suppress(SlurmError):  # there is none
            row = states.read_history(run(*HISTORY, f"--jobs={number}")) or row
    if row is None:
        return JobRow(states.LOST)
    with suppress(KeyError, ValueError):  # no user of this host, or a name already
        return row._replace(by=pwd.getpwuid(int(row.by)).pw_name)
    return row
