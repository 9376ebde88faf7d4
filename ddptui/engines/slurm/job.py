"""The Slurm job of a run: renders its batch script, checks whether it can be submitted, submits it, and follows its
state.

Each of its tasks is a node that joins the run.
"""

import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ddptui.config.catalog import ONE_PROCESS
from ddptui.config.preset import OF_SBATCH, EngineOptions
from ddptui.config.trial import Trial
from ddptui.engines.base import LaunchRefused
from ddptui.engines.join.engine import TICKET, parts_of
from ddptui.engines.slurm import keeper
from ddptui.engines.slurm.keeper import SlurmError, UnknownJob, run
from ddptui.host.folders import python_path

QUEUE_FORMAT = "%T|%r|%N"  # squeue: state, reason, nodes
NOT_BEGUN = ("PENDING", "CONFIGURING")  # CONFIGURING: the nodes are booting
UNDER_WAY = ("RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING")
LOST = "LOST"  # not a state of Slurm: Slurm has forgotten the job
NEVER_STARTS = {  # reasons for which a pending job never starts, and remedies
    "PartitionNodeLimit": "the partition does not allow so many nodes: use fewer --nodes, or another --partition",
    "PartitionConfig": "the partition does not have what the job requests: change --nodes, --time or --partition",
    "PartitionTimeLimit": "the partition does not allow so much time: use a shorter --time, or another --partition",
    "BadConstraints": "no node has what the job requests: change --gres or --sbatch",
    "InvalidAccount": "the account is not valid here: use another --account",
    "DependencyNeverSatisfied": "the job that it depends on has failed: change --sbatch",
}
REASONS = {
    "Resources": "the nodes are busy",
    "Priority": "jobs of higher priority come first",
    "JobHeldUser": "the job is held: `scontrol release` releases it",
    "JobHeldAdmin": "an administrator holds the job",
    "ReqNodeNotAvail": "a requested node is not available",
    "BeginTime": "its start time has not come",
}
ENDINGS = {
    "COMPLETED": "has completed",
    "TIMEOUT": "reached its time limit: raise it with --time",
    "OUT_OF_MEMORY": "exceeded the memory that it requested: request more, as with --sbatch=--mem=8G",
    "NODE_FAIL": "was ended because a node failed",
    "PREEMPTED": "was preempted by another job",
    "REQUEUED": "was requeued, but its nodes cannot continue the run",
    LOST: "is no longer known to Slurm",
}
USUAL_REASONS = ("None", "NonZeroExitCode", "")  # reasons of a job in which a node failed


class JobRow(NamedTuple):
    """Slurm's information about a job."""

    state: str
    reason: str = ""
    nodes: str = ""


class JobStatus(NamedTuple):
    """The state of a job in words; empty before the first check."""

    text: str
    is_over: bool = False  # also if the job will never start
    by_slurm: bool = False  # whether the text says why the job is over; otherwise a node may know


def read_queue(printed: str) -> JobRow | None:
    """Reads the output of `squeue --format=QUEUE_FORMAT`."""
    rows = (line.strip().split("|") for line in printed.splitlines())
    return next((JobRow(*row) for row in rows if len(row) == 3), None)  # other lines are warnings, or the site's own


def job_status(number: int, row: JobRow) -> JobStatus:
    """The state of a job."""
    job, on = f"job {number}", f" on {row.nodes}" if row.nodes else ""
    if row.state in NOT_BEGUN:
        if never := NEVER_STARTS.get(row.reason):
            return JobStatus(f"{job} can never start ({row.reason}): {never}", is_over=True, by_slurm=True)
        return JobStatus(f"{job} {'is queued' if row.state == 'PENDING' else 'is being prepared'}{_because(row)}")
    if row.state in UNDER_WAY:
        return JobStatus(f"{job} {'runs' if row.state == 'RUNNING' else f'is {row.state.lower()}'}{on}")
    match row.state:
        case "FAILED" if row.reason in USUAL_REASONS:
            return JobStatus(f"{job} has failed: job.log in the run's folder has its output", is_over=True)
        case "FAILED" if row.reason == "JobLaunchFailure":
            how = f"could not be started{on}: the nodes may not see the run's folder; --runs names another"
        case "CANCELLED":
            how = "was canceled outside this console"
        case state:
            how = ENDINGS.get(state, f"has ended: {state}{_because(row)}")
            how += f": {row.nodes}" if state == "NODE_FAIL" else ""
    return JobStatus(f"{job} {how}", is_over=True, by_slurm=True)


def _because(row: JobRow) -> str:
    if row.reason in ("", "None"):
        return ""
    # more words may follow a reason, as in "(ReqNodeNotAvail, UnavailableNodes:n1)"
    words = next((words for name, words in REASONS.items() if row.reason.lstrip("(").startswith(name)), "")
    return f": {row.reason}{f' ({words})' if words else ''}"


SCRIPT, LOG = "job.sh", "job.log"  # files in the run's folder
PREFIX = f"{TICKET}-"  # prefix of the file name of a job's ticket
OURS = {
    "--array": "-a", "--chdir": "-D", "--clusters": "-M", "--error": "-e", "--job-name": "-J", "--nodes": "-N",
    "--ntasks": "-n", "--ntasks-per-node": "", "--open-mode": "", "--output": "-o", "--parsable": "", "--requeue": "",
    "--test-only": "", "--wait": "-W", "--wrap": "",
}  # fmt: skip


def nodes_needed(trials: Iterable[Trial], nodes: int) -> int:
    """The number of nodes that the largest trial needs."""
    return max(len(parts_of(trial, nodes)) for trial in trials)


def sbatch_options(trials: Iterable[Trial], engine: EngineOptions, folder: Path, name: str) -> list[str]:
    """The options of sbatch for a job with this name. folder: the run's folder. Raises SlurmError."""
    if not str(folder).isprintable() or "\\" in str(folder):  # Slurm removes backslashes from the path of a log
        raise SlurmError(f"{str(folder)!r} has a backslash or an unprintable character: name another one with --runs")
    trials = [*trials]
    nodes = nodes_needed(trials, engine.nodes)
    return [
        f"--cpus-per-task={max(_cores(trial, nodes) for trial in trials)}",
        *engine_options(engine),
        f"--job-name={name}",
        f"--nodes={nodes}",
        f"--ntasks={nodes}",
        "--ntasks-per-node=1",
        f"--chdir={folder}",
        f"--output={str(folder / LOG).replace('%', '%%')}",  # Slurm would replace %j and the like
        "--open-mode=append",
        "--no-requeue",
    ]


def _cores(trial: Trial, nodes: int) -> int:
    """The number of cores that a trial uses on a node."""
    ranks = trial.world_size if trial.launch in ONE_PROCESS else len(parts_of(trial, nodes)[0].ranks)
    return ranks * (trial.threads or 1)


def render(options: Iterable[str], ticket: Path, python: str = sys.executable) -> str:
    """The script of a job with these options of sbatch. ticket: the file with the ticket by which its nodes join."""
    join = [python, "-P", "-m", "ddptui", "join", "--as", "slurm", str(ticket)]
    lines = [
        "#!/bin/bash",
        "# The job of a run. Each of its tasks is a node, which starts the ranks of launch after launch.",
        "",
        *(f"#SBATCH {shlex.quote(option)}" for option in options),
        "",
        f"export PYTHONPATH={shlex.quote(python_path())}",
        "export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK  # srun no longer inherits it",
        "# --kill-on-bad-exit: without one of its nodes, the job is of no use. --wait=0: they need not end together.",
        f"exec srun --export=ALL --kill-on-bad-exit=1 --wait=0 {shlex.join(join)}",
    ]
    return "\n".join(lines) + "\n"


def example(trials: Iterable[Trial], engine: EngineOptions) -> str:
    """The script for a run of these trials, with placeholders for the run's folder. Raises SlurmError."""
    folder = Path("/RUNS/RUN")
    return render(sbatch_options(trials, engine, folder, "ddptui-RUN-TOKEN"), folder / f"{PREFIX}TOKEN", "python")


def engine_options(engine: EngineOptions) -> list[str]:
    """The user's options, in the form of sbatch. Raises SlurmError."""
    chosen = [f"--{key}={value}" for key in OF_SBATCH if (value := getattr(engine, key)) is not None]
    return chosen + [word for option in engine.options for word in _words(option)]


def _words(option: str) -> list[str]:
    """An additional option of sbatch, split into words of a command line. Raises SlurmError."""
    try:
        words = shlex.split(option)
    except ValueError:
        raise SlurmError(f"option {option!r}: a quote is not closed") from None
    if not words or not words[0].startswith("-") or words[0].strip("-") == "" or "--" in words:
        raise SlurmError(f"option {option!r} is not an option of sbatch, which begins with - or --")
    for name, letter in OURS.items():
        if any(word.partition("=")[0] == name or (letter and word.startswith(letter)) for word in words):
            raise SlurmError(f"option {option!r}: ddptui sets {name} itself, from its own --nodes")
    return words


QUEUE = ("squeue", "--noheader", "--states=all", f"--format={QUEUE_FORMAT}")  # all: includes ended jobs
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
    with suppress(UnknownJob):
        if row := read_queue(run(*QUEUE, f"--jobs={number}")):
            return row
    return JobRow(LOST)  # squeue forgets a job minutes after its end (MinJobAge)
